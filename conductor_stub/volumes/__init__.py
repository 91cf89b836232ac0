# SPDX-License-Identifier: Apache-2.0
"""Volumes: an accepted volume goes from ``creating`` to ``available`` or ``error``. ``fleet.volume_states`` draws its life.

Read ``intake``, ``creation``, ``snapshots``, ``migrations`` and ``existing`` (what users ask for), ``machine`` (the
shared machine, over volume rows), ``placement`` (the scheduler is called, space is claimed, the backend's agent is
notified), ``claims`` (space of a pool is claimed and given back), ``ends`` (a backend has done its part), ``extension``,
``deletion``, ``together`` (steps of several volumes in one transaction),
``failures`` (a backend cannot do its part: the next alternate, the scheduler again, or the end), ``progress`` (what
agents read and report), ``sweeper`` (steps that are overdue), ``manager`` (the RPC surface for agents and conductors).
``conditions`` has what must hold before something is done with a volume. ``request_spec`` makes what the scheduler
receives, ``views`` what users see.
"""
