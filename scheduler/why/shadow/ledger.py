# SPDX-License-Identifier: Apache-2.0
"""Verdicts that wait for their instance to appear, and the sums of all comparisons, in a file.

Called by modules of :mod:`scheduler.compute.drivers` and :mod:`scheduler.nova.shadow`. The file is what ``fleet-manage
shadow report`` prints. It has sums by outcome, flavor and reason, and the newest differences, so its size is bounded.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import threading
from collections.abc import Callable, Mapping

from fleet.json_codec import JSONObject
from fleet.telemetry import metrics
from scheduler.why.shadow import outcome
from scheduler.why.shadow.outcome import Kind, Outcome
from scheduler.why.shadow.verdict import Verdict

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

    :param path: of the file; sums of earlier runs, and of other processes, are added to
    :param patience_s: seconds after which an instance without a host counts as refused
    :param clock: epoch seconds
    """

    def __init__(self, path: pathlib.Path, patience_s: float, clock: Callable[[], float]) -> None:
        self._path = path
        self._patience_s = patience_s
        self._clock = clock
        self._lock = threading.Lock()
        #: Held while the file is written, so that nothing is added to it twice.
        self._saving = threading.Lock()
        self._waiting: dict[str, _Waiting] = {}
        #: What is not in the file yet.
        self._sums: collections.Counter[tuple[str, str, str]] = collections.Counter()
        self._newest: collections.deque[dict[str, object]] = collections.deque(maxlen=NEWEST)

    def wait_for(self, instances: list[str], verdict: Verdict) -> None:
        """Compare each instance when it has a host. A newer verdict for an instance replaces the older one."""
        until = self._clock() + self._patience_s
        with self._lock:
            for position, uuid in enumerate(instances):
                self._waiting.pop(uuid, None)
                self._waiting[uuid] = _Waiting(verdict, position, until)

    def look(self, hosts_of: Callable[[list[str]], Mapping[str, str]]) -> list[str]:
        """Compare the instances that have a new host, and those that have waited for too long. Return the latter.

        :param hosts_of: instances → the host of each that has one now
        """
        given_up: list[str] = []
        now = self._clock()
        with self._lock:
            waiting = list(self._waiting.items())
        if not waiting:
            return given_up
        too_many = len(waiting) - MOST_WAITING
        hosts = hosts_of([uuid for uuid, _each in waiting])
        for number, (uuid, each) in enumerate(waiting):
            host = hosts.get(uuid)
            has_come = host is not None and host != each.verdict.sources.get(uuid)
            if has_come or each.until <= now or number < too_many:
                self.count(uuid, outcome.compare(each.verdict, each.position, host if has_come else None))
                given_up += [] if has_come else [uuid]
                with self._lock:
                    if self._waiting.get(uuid) is each:
                        del self._waiting[uuid]
        return given_up

    def save(self) -> None:
        """Add what is new to the file. :raises OSError: it is kept for the next time"""
        with self._saving:
            with self._lock:
                sums, newest = self._sums.copy(), list(self._newest)
            if not sums:
                return
            with self._path.with_suffix(".lock").open("a") as locked:
                fcntl.flock(locked, fcntl.LOCK_EX)
                text = json.dumps(self._added(sums, newest))
                written = self._path.with_suffix(".new")
                written.write_text(text)
                os.replace(written, self._path)
            with self._lock:
                self._sums -= sums
                while self._newest and any(self._newest[0] is each for each in newest):
                    self._newest.popleft()

    def count(self, uuid: str, found: Outcome) -> None:
        """Count the comparison of one instance."""
        metrics.SHADOW.labels(found.kind.value).inc()
        with self._lock:
            self._sums[found.kind.value, found.flavor, found.reason] += 1
            if found.kind not in (Kind.SAME, Kind.BOTH_REFUSED):
                values = {**dataclasses.asdict(found), "kind": found.kind.value}
                self._newest.append({"server": uuid, "at": round(self._clock()), **values})

    def _added(self, sums: collections.Counter[tuple[str, str, str]], newest: list[JSONObject]) -> dict[str, object]:
        """Return the content of the file with what is new. A file that cannot be read is begun anew."""
        since, known, differences = self._clock(), collections.Counter[tuple[str, str, str]](), list[JSONObject]()
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(self._path.read_text())
            before = {(each["kind"], each["flavor"], each["reason"]): int(each["count"]) for each in found["sums"]}
            since, differences = float(found["since"]), [dict(each) for each in found["newest"]]
            known.update(before)
        for key, count in sums.items():
            counted = key if key in known or len(known) < MOST_SUMS else (key[0], _OTHERS, _OTHERS)
            known[counted] += count
        names = ("kind", "flavor", "reason")
        lines = [{**dict(zip(names, key, strict=True)), "count": count} for key, count in sorted(known.items())]
        return {"since": since, "sums": lines, "newest": [*differences, *newest][-NEWEST:]}
