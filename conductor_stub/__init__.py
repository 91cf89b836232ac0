# SPDX-License-Identifier: Apache-2.0
"""The conductor: accepts requests, drives each build and each move to its end, and writes the ledger.

A *request* is one call of a client; each of its instances is a *build*. A *move* is a resize or an evacuation. A *step*
is one status of a build or move (``fleet.states``, ``fleet.move_states``). The *sweeper* acts on a step whose deadline
has passed.

Read ``main`` (the wiring) and ``manager`` (the RPC surface), then the rooms: ``steps`` (what builds and moves have in
common), ``builds``, ``moves`` (the same file names in both), ``agents`` (what agents read and write), ``operators``
(what the ``fleet`` command reads and changes). ``conf`` declares the options, ``checks`` tries a configuration.
"""

import fleet  # noqa: F401  (chooses native threads before anything here imports oslo.messaging)
