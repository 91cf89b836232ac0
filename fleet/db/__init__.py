# SPDX-License-Identifier: Apache-2.0
"""The ledger: tables, transactions, the change feed, and the queries. Only this package imports SQLAlchemy.

Start with ``models`` (the tables) and ``engine`` (``Database``: runs a function in a ``transaction``, which stamps what it
changed with the next *generation*). Then:

- Changes for schedulers: ``feed``, ``feed_queries``, ``prepared_query``, ``prefetched_query``, ``reader``.
- Time and identity: ``now`` and ``clock`` (the database's time), ``identity`` (the uuid of the ledger).
- Queries, one module for each family of tables: ``instances`` (find, list, lock), ``builds``, ``moves``, ``queued_builds``,
  ``room_queue``, ``room_changes``, ``kept_host`` (who waits for room, and what may help);
  ``claimed``, ``history``; ``hosts``, ``usage``, ``hardware``; ``services``, ``heartbeats``; ``flavors``, ``images``,
  ``aggregates``, ``groups``, ``quotas``, ``removal``; ``flavor_mix`` (what the fleet is asked for); ``pools``, ``volumes``,
  ``volume_history``,
  ``volume_types``; ``key_pairs``, ``boot_data``; ``signatures``. Their functions take a transaction or a connection first.
- For operators: ``use_history``, ``audit``, ``diagnosis``, ``retention``, ``lookup``.
- Schema: ``schema`` (checks it), ``migration`` (changes it), ``grants`` (privileges of each service).
- Connections: ``options``, ``driver``, ``tls``, ``loopback``, ``idle_ping``, ``failures`` (errors), ``statements``.
"""
