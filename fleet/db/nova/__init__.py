# SPDX-License-Identifier: Apache-2.0
"""Reads the databases of an OpenStack nova: its API database, and one database for each cell. Nothing here writes.

Read ``tables`` (the columns that are read), ``database`` (a connection that may only read), then ``api_queries`` and
``cell_queries``; ``grants`` has the privileges that suffice.
"""
