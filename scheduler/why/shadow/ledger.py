# SPDX-License-Identifier: Apache-2.0
"""Verdicts that wait for their server to appear, and the sums of all comparisons, in a file.

The file is what ``fleet-manage nova shadow report`` prints. It has sums by outcome, flavor and reason, and the newest
differences, so its size is bounded.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import threading
from collections.abc import Callable
from typing import Any

from fleet.telemetry import metrics
from scheduler.nova.shadow import outcome
from scheduler.nova.shadow.outcome import Kind, Outcome
from scheduler.nova.shadow.verdict import Verdict

#: Instances that wait at most; the oldest are then compared as they are.
MOST_WAITING = 2000
#: Differences in the file.
NEWEST = 200
#: Kinds of sums in the file; further flavors are counted together.
MOST_SUMS = 2000
_OTHERS = "others"


@dataclasses.dataclass(frozen=True)
class _Waiting:
    verdict: Verdict
    position: int
    until: float


class ShadowLedger:
    """Several threads use it.

    :param path: of the file; sums of an earlier run are continued
    :param patience_s: seconds after which a server without a host counts as refused by nova
    :param clock: epoch seconds
    """

    def __init__(self, path: pathlib.Path, patience_s: float, clock: Callable[[], float]) -> None:
        self._path = path
        self._patience_s = patience_s
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[str, _Waiting] = {}
        self._sums: collections.Counter[tuple[str, str, str]] = collections.Counter()
        self._newest: collections.deque[dict[str, Any]] = collections.deque(maxlen=NEWEST)
        self._since = clock()
        self._is_changed = False
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            self._restore(json.loads(path.read_text()))

    def wait_for(self, instances: list[str], verdict: Verdict) -> None:
        """Compare each instance when it has a host. A newer verdict for an instance replaces the older one."""
        until = self._clock() + self._patience_s
        with self._lock:
            for position, uuid in enumerate(instances):
                self._waiting.pop(uuid, None)
                self._waiting[uuid] = _Waiting(verdict, position, until)

    def look(self, host_of: Callable[[str], str | None]) -> None:
        """Compare the instances that have a new host, and those that have waited for too long.

        :param host_of: instance → its host now
        """
        now = self._clock()
        with self._lock:
            waiting = list(self._waiting.items())
        too_many = len(waiting) - MOST_WAITING
        for number, (uuid, each) in enumerate(waiting):
            host = host_of(uuid)
            has_come = host is not None and host != each.verdict.sources.get(uuid)
            if has_come or each.until <= now or number < too_many:
                self._count(uuid, outcome.compare(each.verdict, each.position, host if has_come else None))
                with self._lock:
                    if self._waiting.get(uuid) is each:
                        del self._waiting[uuid]

    def save(self) -> None:
        """Write the file if something has changed. :raises OSError:"""
        with self._lock:
            if not self._is_changed:
                return
            text = json.dumps(self._to_json())
            self._is_changed = False
        written = self._path.with_suffix(".new")
        written.write_text(text)
        os.replace(written, self._path)

    def _count(self, uuid: str, found: Outcome) -> None:
        metrics.NOVA_SHADOW.labels(found.kind.value).inc()
        with self._lock:
            key = found.kind.value, found.flavor, found.reason
            if key not in self._sums and len(self._sums) >= MOST_SUMS:
                key = found.kind.value, _OTHERS, _OTHERS
            self._sums[key] += 1
            self._is_changed = True
            if found.kind not in (Kind.SAME, Kind.BOTH_REFUSED):
                values = {**dataclasses.asdict(found), "kind": found.kind.value}
                self._newest.append({"server": uuid, "at": round(self._clock()), **values})

    def _to_json(self) -> dict[str, Any]:
        names = ("kind", "flavor", "reason")
        sums = [{**dict(zip(names, key, strict=True)), "count": count} for key, count in sorted(self._sums.items())]
        return {"since": self._since, "sums": sums, "newest": list(self._newest)}

    def _restore(self, found: Any) -> None:
        sums = {(each["kind"], each["flavor"], each["reason"]): int(each["count"]) for each in found["sums"]}
        self._since, newest = float(found["since"]), [dict(each) for each in found["newest"]]
        self._sums.update(sums)
        self._newest.extend(newest)
