# SPDX-License-Identifier: Apache-2.0
"""The ledger: tables, transactions, the change feed, and one query module per family of tables.

``models`` are the tables; ``engine`` runs a function in a ``transaction``, which stamps what it changed with the next
*generation*; ``feed`` answers "what changed after G?"; ``migration`` brings a database to the schema that this program
knows. Query modules (``services``, ``hosts``, ``instances``, ``moves``, ``history``, ``groups``, ``aggregates``,
``flavors``; for operators ``retention`` and ``audit``) hold functions that take a transaction first, and no others touch
SQL.
"""
