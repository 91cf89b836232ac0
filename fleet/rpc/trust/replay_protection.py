# SPDX-License-Identifier: Apache-2.0
"""Refuses a signed message that came before: a signature is good for one message.

Each process remembers the signatures that it has taken, for as long as they are good. Several conductors share a queue, so
another conductor may get the repetition. If repeating a method would change something, its signature is therefore also
recorded in the database (:class:`Record`). All other methods of agents and conductors are reads, or compare-and-set steps of
a row: a second one finds the row moved on.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Mapping
from typing import Protocol

#: Signatures that one process remembers. Beyond that the oldest are forgotten before their time.
MOST = 50_000
#: A heartbeat and a report are neither recorded nor steps of a row: they are refused so many seconds after their signature.
FRESH_S = 20.0
FRESH_ONLY = frozenset({(None, "report_state"), (None, "report_hosts")})
_READS = ("list_", "show_", "trace", "examine", "request_")
_ONCE: Mapping[str | None, frozenset[str]] = {
    None: frozenset({"register_services", "leave"}),
    "compute_task": frozenset({"create", "terminate_instances"}),
}


class Record(Protocol):
    """Shared by all processes of a service."""

    def take(self, signature: str, good_for_s: float) -> bool:
        """False: it was taken before."""


def changes_something(namespace: str | None, method: str) -> bool:
    """Whether a second message of a conductor's method would do anything that the first has not."""
    if namespace == "operator":
        return not method.startswith(_READS)
    return method in _ONCE.get(namespace, ())


class SeenSignatures:
    """Of one process. Safe for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: collections.OrderedDict[str, float] = collections.OrderedDict()

    def take(self, signature: str, now: float, good_for_s: float) -> bool:
        """False: it was taken before."""
        with self._lock:
            while self._until and (len(self._until) >= MOST or next(iter(self._until.values())) < now):
                self._until.popitem(last=False)
            if signature in self._until:
                return False
            self._until[signature] = now + good_for_s
            return True
