# SPDX-License-Identifier: Apache-2.0
"""The trio in one thread, with a clock, a message bus and a database that do what a seed says.

The real conductor, scheduler and agent code runs in coroutines; the bus drops, repeats, delays and reorders; a commit may
fail, or succeed and look as if it had failed; a process may die between any two steps. ``world`` is the machinery, ``bus``
the messages, ``database`` and ``statements`` the ledger, ``processes`` wires the three services to it, ``storage`` the
volumes of each and their agents, ``scenario`` plays one seed, ``recovering`` one
in which a host dies for good and is recovered, and ``invariants`` judges them. ``make simulation`` plays many;
a seed that fails prints its history.
"""
