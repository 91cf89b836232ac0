# SPDX-License-Identifier: Apache-2.0
"""The truth of one host: claims what a build needs, spawns it, and reports what the host has.

Vocabulary: an *agent* is one process; it serves one or more *hosts*, each with its own name and queue; a host has one
or more *nodes*; a *tracker* is what an agent knows of one node; a *claim* is what a tracker holds for one instance; a
*guest* is an instance as the driver sees it; an *orphan* is a guest that the ledger does not know; the *ledger* is the
conductor's database, reached by RPC only; a *lane* is the order of work on one instance.

Read in this order: ``main`` (the wiring), ``agent`` (a process's life), ``manager`` (the RPC surface), ``orders``
(what confirms each), ``build`` (claim, spawn, finish), ``claims`` and ``resource_tracker`` (who may come in), ``ledger``
(calls whose outcome may be unknown) and ``together`` (those of many builds in one message), ``audit`` and ``reporter``
(what is told),
``recovery`` (after a crash) and ``comparison`` (all the time), ``identity`` (who may serve a host), ``drivers`` (what
runs a guest), ``monitors`` (what is measured).
"""

import fleet  # noqa: F401  (chooses native threads before anything here imports oslo.messaging)
