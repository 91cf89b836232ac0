# SPDX-License-Identifier: Apache-2.0
"""The ledger: tables, transactions, the change feed, and the queries. Only this package imports SQLAlchemy.

Start with ``tables`` and ``engine`` (``Database`` runs a function in a transaction, which stamps what it changed with
the next *generation*). Then, from the ground up:

- ``connection``: how a server is reached, and what a connection to it must be
- ``hosts``, ``catalog``, ``instances``, ``volumes``: the queries, a module for each family of tables; their functions take a
  transaction or a connection first. The query behind "list servers" is in ``instances/instance_listing.py``.
- ``operations``: the same for recoveries, maintenances, balancing and promises
- ``feed``: changes for schedulers, and events for readers
- ``schema``: checks and changes the tables; the identity of a ledger
- ``upkeep``: audits, retention, privileges and the work of operators
- ``nova``: reads the databases of an OpenStack nova
"""
