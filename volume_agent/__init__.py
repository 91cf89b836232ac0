# SPDX-License-Identifier: Apache-2.0
"""The truth of storage backends: makes and removes volumes, and reports what their pools have.

Vocabulary: an *agent* is one process; it serves one or more *backends*, each configured by a section and named
``machine@section``; a backend has one or more *pools*; a *stray* is a volume on a backend that the ledger does not have
there.

Read in this order: ``main`` (the wiring), ``agent`` (a process's life), ``manager`` (the RPC surface), then the packages:
``work`` (what an order does, and what the agent does after a restart), ``backends`` (a backend and its options),
``ledger`` (calls to the conductor, reports), ``drivers`` (what makes volumes). ``conf`` declares the options; ``checks``
tells whether an agent could start with a configuration.
"""

import fleet  # noqa: F401  (chooses native threads before anything here imports oslo.messaging)
