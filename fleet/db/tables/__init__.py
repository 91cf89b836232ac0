# SPDX-License-Identifier: Apache-2.0
"""The tables by domain.

``base`` has the columns that tracked tables share. ``ledger``, ``hosts``, ``instances``, ``moves``, ``queue``, ``volumes``,
``networks``, ``catalog`` and ``operations`` have the tables. ``models`` imports all of them: queries and migrations read
the tables from there.
"""
