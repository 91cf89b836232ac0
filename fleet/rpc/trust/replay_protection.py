# SPDX-License-Identifier: Apache-2.0
"""Refuses a signed message that was received before: a signature is good for one message.

Called by :mod:`fleet.rpc.server` and :mod:`fleet.rpc.trust.signing`. Each process stores the signatures it has
accepted for as long as they are valid. Several conductors share a queue, so another conductor may receive the replay.
For methods where a replay would change something, the signature is therefore also recorded in the database
(:class:`Record`). All other methods of agents and conductors are reads, or compare-and-set steps of a row: a replay
finds the row changed.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Mapping
from typing import Protocol

#: Signatures that one process stores. Beyond that the oldest are dropped early.
MOST = 50_000
#: Heartbeats and reports are neither recorded nor compare-and-set steps: they are refused this many seconds after
#: they were signed.
FRESH_S = 20.0
FRESH_ONLY = frozenset({(None, "report_state"), (None, "report_hosts"), ("volume", "report_pools")})
_READS = ("list_", "show_", "trace", "examine", "request_")
_ONCE: Mapping[str | None, frozenset[str]] = {
    None: frozenset({"register_services", "leave"}),
    "compute_task": frozenset({"create", "terminate_instances"}),
}


class Record(Protocol):
    """The signatures accepted by all processes of a service."""

    def take(self, signature: str, good_for_s: float) -> bool:
        """Return False if the signature was accepted before."""


def changes_something(namespace: str | None, method: str) -> bool:
    """Return True if a replay of a conductor's method would have an effect."""
    if namespace == "operator":
        return not method.startswith(_READS)
    return method in _ONCE.get(namespace, ())


class SeenSignatures:
    """The signatures accepted by one process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: collections.OrderedDict[str, float] = collections.OrderedDict()

    def take(self, signature: str, now: float, good_for_s: float) -> bool:
        """Return False if the signature was accepted before."""
        with self._lock:
            while self._until and (len(self._until) >= MOST or next(iter(self._until.values())) < now):
                self._until.popitem(last=False)
            if signature in self._until:
                return False
            self._until[signature] = now + good_for_s
            return True
