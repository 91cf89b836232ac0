# SPDX-License-Identifier: Apache-2.0
"""Look up a host attribute that a request names, and judge it once per distinct value where possible.

Filters on attributes that users name call it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from scheduler.compute.domain.host_state import Capabilities
from scheduler.engine.hosts.candidates import Candidates

Verdict = Callable[[Any], bool]


def judged(hosts: Candidates, name: str, verdict: Callable[[Any], Any], dtype: type = bool) -> numpy.ndarray:
    """Return ``verdict`` of the attribute ``name`` of each host, as a host state shows it."""
    storage = hosts.storage(name)
    if storage is None:
        return numpy.full(len(hosts), verdict(None))
    if name in hosts.domain.layout.objects:
        return numpy.array([verdict(value) for value in hosts.column(name).tolist()], dtype=dtype)
    if name in Capabilities._fields:
        return hosts.by_capabilities(lambda kind: verdict(kind.shown(name)), dtype)
    if storage == "number":
        return hosts.by_number(name, verdict, dtype)
    if storage == "rare":
        return hosts.by_rare(name, verdict, dtype)
    return hosts.by_host(lambda state: verdict(getattr(state, name)), dtype)


def values(hosts: Candidates, name: str) -> list[Any]:
    """Return the attribute ``name`` of each host; None for free rows. Hosts that share a value are read once."""
    found: list[Any] = [None]

    def place(value: object) -> int:
        found.append(value)
        return len(found) - 1

    return [found[each] for each in judged(hosts, name, place, int).tolist()]


def judged_or_stats(hosts: Candidates, name: str, verdict: Verdict) -> numpy.ndarray:
    """Judge as :func:`judged` does, with ``stats[name]`` for hosts whose attribute is missing or None."""
    if hosts.storage(name) == "number":
        return judged(hosts, name, verdict)
    own = judged(hosts, name, verdict)
    has_own = judged(hosts, name, lambda value: value is not None)
    if has_own.all():
        return own
    return numpy.where(has_own, own, hosts.by_rare("stats", lambda stats: verdict(stats.get(name))))


def follow(value: object, path: Sequence[str]) -> Any:
    """Return the value at a path of keys; None if there is none. Text on the way is parsed as JSON."""
    for part in path:
        if isinstance(value, str):
            value = _decoded(value)
        value = value.get(part) if isinstance(value, Mapping) else None
        if value is None:
            return None
    return value


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
