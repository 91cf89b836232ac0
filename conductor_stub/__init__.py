# SPDX-License-Identifier: Apache-2.0
"""Drives every build to its end: asks the scheduler, casts to the agent, keeps the ledger, picks up what was lost.

A *request* is what a client asked for in one call; each of its instances is a *build*. A *step* is where a build
stands (``fleet.states``); the *sweeper* acts on a step whose deadline has passed.

Read ``main`` (the wiring), ``manager`` (the RPC surface), ``intake`` (accept), ``own_builds`` (the threads that place
what was accepted here), ``build`` (place and cast), ``transitions`` (what comes of an attempt), ``termination``,
``sweeper``; ``request_spec`` makes what the scheduler is asked, ``records`` is what agents read and write (``steps``:
the claim and the finish of a build), ``operator_api`` what operators do.
"""

import fleet  # noqa: F401  (chooses native threads before anything here imports oslo.messaging)
