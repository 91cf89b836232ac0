# SPDX-License-Identifier: Apache-2.0
"""The truth of one host: claims what a build needs, spawns it, and reports what the host has.

Vocabulary: an *agent* is one process; it serves one or more *hosts*, each with its own name and queue; a host has one
or more *nodes*; a *tracker* holds what the agent counts on one node; a *claim* is what a tracker holds for one instance; a
*guest* is an instance as the driver sees it; an *orphan* is a guest that the ledger does not have; the *ledger* is the
conductor's database, which the agent reaches by RPC only.

Read in this order: ``main`` (the wiring), ``agent`` (a process's life), ``manager`` (the RPC surface), then the packages:
``work`` (builds, moves, terminations), ``node`` (the host, its claims and its audit), ``ledger`` (calls to the conductor,
reports), ``drivers`` (what runs a guest; ``guest`` is its supervisor), ``monitors`` (measurements).
``checks`` tells whether an agent could start with a configuration. ``fleet.agent`` has what other agents need as well.
"""

import fleet  # noqa: F401  (chooses native threads before anything here imports oslo.messaging)
