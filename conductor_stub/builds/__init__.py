# SPDX-License-Identifier: Apache-2.0
"""Builds: an accepted instance goes from ``scheduling`` to ``active`` or ``error``. ``fleet.states`` draws its life.

Read ``intake`` (a request is accepted and its rows are written), ``reserving`` (what it needs of volumes), ``machine`` (the
shared machine, over instance rows), ``placement`` (the scheduler is called, the order is cast to the chosen host),
``claims`` (the host claims and finishes), ``failures`` (an attempt fails: the next alternate, the scheduler again, or
ERROR), ``retry_policy`` (the scheduler has no host: ask again or give up), ``waiting`` and ``room_queue`` (builds wait for
room, and are woken), ``sweeper`` (steps that are overdue), ``termination`` (an instance is deleted),
``unshelving`` (a shelved instance is built again) and ``left_guest`` (not while a host may still have its guest).
``client_token`` makes a repeated request safe. ``manager`` is the RPC surface.
"""
