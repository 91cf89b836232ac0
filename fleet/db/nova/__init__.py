# SPDX-License-Identifier: Apache-2.0
"""Reads the databases of an OpenStack nova: its API database, one database for each cell, and placement's.

Nothing writes, except for a scheduler's row in nova's list of services (``own_service``).

Read ``tables`` (the columns that are read), ``engine`` and ``database`` (a connection that may only read), then
``api_queries``, ``cell_queries`` (with the types of its rows, ``cell_rows``) and ``placement_queries``, which share
``in_parts``.
"""
