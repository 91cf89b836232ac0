# SPDX-License-Identifier: Apache-2.0
"""Tests which services are alive, by their last heartbeat.

Called by :mod:`scheduler.compute.filters.compute`, by the domains of virtual machines, of volumes and of nova, and by two
drivers for volumes.
"""

from __future__ import annotations

import numpy

from scheduler.engine.hosts.candidates import Candidates


def is_up(hosts: Candidates, service_down_time_s: float) -> numpy.ndarray:
    """Return a mask of the hosts with a heartbeat within ``service_down_time_s`` of now.

    A heartbeat that is further in the future comes from a wrong clock, and does not count. Source: nova's servicegroup
    driver ``db`` (``is_up``), with its absolute difference.
    """
    silence: numpy.ndarray = numpy.abs(hosts.column("last_seen_up") - hosts.now)
    up: numpy.ndarray = (silence <= service_down_time_s) & ~hosts.column("forced_down")
    return up


def steady_until(hosts: Candidates, service_down_time_s: float) -> float:
    """Return the epoch second at which time alone may change the answer of :func:`is_up` for a host."""
    seen = hosts.column("last_seen_up")
    turns = numpy.concatenate((seen - service_down_time_s, seen + service_down_time_s))
    return float(turns.min(where=turns >= hosts.now, initial=numpy.inf))
