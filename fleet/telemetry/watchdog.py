# SPDX-License-Identifier: Apache-2.0
"""Runs round trips through broker and database, and ends a daemon that is stuck.

:mod:`fleet.service.probes` starts it.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
import types
from collections.abc import Callable, Mapping

from oslo_log import log as logging

from fleet.telemetry import metrics, systemd

LOG = logging.getLogger(__name__)

#: Exit status of a stuck daemon: EX_SOFTWARE of sysexits.h.
EXIT_STUCK = 70
Probe = Callable[[], object]


@dataclasses.dataclass
class Part:
    """The state of one part that the daemon needs. Times are seconds of the monotonic clock."""

    probe: Probe
    begun_at: float | None = None
    #: Since when it fails although it can be reached.
    failing_alone_since: float | None = None
    ended_at: float | None = None
    took_s: float = 0.0
    problem: str = "no round trip yet"
    #: Whether a round trip has succeeded at some time.
    has_worked: bool = False

    def to_json(self, now: float) -> dict[str, object]:
        age = None if self.ended_at is None else round(now - self.ended_at, 1)
        return {"ready": not self.problem, "problem": self.problem, "took_s": round(self.took_s, 4), "age_s": age}


class Watchdog:
    """Runs each probe in a thread of its own, every ``interval_s``, and watches that the probes end.

    A probe raises if the part does not work. A probe that has not returned for ``limit_s`` makes the daemon not
    ready. The fault is either the daemon's or the part's. While a part fails, each look asks ``reachable`` whether the
    part works. If it has worked at every look for ``stuck_s``, the daemon is stuck, and ``exit_`` is called. An outage
    of the part does not count: a restart would not help, and the part may have just returned. Without an entry in
    ``reachable`` the watchdog cannot decide, and the daemon keeps waiting.
    """

    def __init__(
        self,
        probes: Mapping[str, Probe],
        interval_s: float,
        limit_s: float,
        stuck_s: float,
        clock: Callable[[], float] = time.monotonic,
        exit_: Callable[[int], object] = os._exit,
        reachable: Mapping[str, Callable[[], bool]] = types.MappingProxyType({}),
    ) -> None:
        self._parts = {name: Part(probe) for name, probe in probes.items()}
        self._interval_s = interval_s
        self._limit_s = limit_s
        self._stuck_s = stuck_s
        self._clock = clock
        self._exit = exit_
        self._reachable = reachable
        self._started_at = clock()
        self._stopping = threading.Event()
        self._said: dict[str, str] = {}
        self._warned: set[str] = set()

    def start(self) -> None:
        for name, part in self._parts.items():
            work = threading.Thread(target=self._go_round, args=(name, part), name=f"round trip {name}", daemon=True)
            work.start()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def wait(self) -> None:
        """Do nothing: a probe may wait for a broker that is away."""

    # What others ask

    @property
    def ready(self) -> bool:
        return not any(self._problem(part) for part in self._parts.values())

    @property
    def live(self) -> bool:
        return not self._stuck()

    def detail(self) -> dict[str, object]:
        """Return each part with its newest round trip, for people and programs."""
        now = self._clock()
        parts = {name: part.to_json(now) | {"problem": self._problem(part)} for name, part in self._parts.items()}
        return {"ready": self.ready, "live": self.live, "parts": parts, "up_s": round(now - self._started_at, 1)}

    # One look, and one round

    def look(self) -> None:
        """Report the state to systemd and the log. End the process if it is stuck."""
        ready = self.ready
        metrics.READY.set(1 if ready else 0)
        for name, part in self._parts.items():
            self._tell(name, part)
            self._count_failing_alone(name, part)
        stuck = self._stuck()
        if stuck:
            said = "No round trip through the %s has succeeded for %.0f s, though it can be reached: stuck, exiting"
            LOG.critical(said, stuck, self._stuck_s)
            self._exit(EXIT_STUCK)
        else:
            state = "ready" if ready else "not ready: " + "; ".join(self._said.values())
            systemd.notify(f"WATCHDOG=1\nSTATUS={state}")

    def go_round(self, name: str) -> None:
        """Run one round trip through one part."""
        part = self._parts[name]
        part.begun_at = began = self._clock()
        try:
            part.probe()
            problem = ""
        except Exception as failure:
            # Drivers may raise anything. Any exception means that the part does not work.
            problem = f"{type(failure).__name__}: {failure}".strip(" :").splitlines()[0][:200]
            metrics.ROUND_TRIP_FAILURES.labels(name).inc()
        part.ended_at = self._clock()
        if not problem:
            part.failing_alone_since = None
            part.has_worked = True
        part.took_s = part.ended_at - began
        part.begun_at = None
        part.problem = problem
        metrics.ROUND_TRIP_SECONDS.labels(name).set(part.took_s)

    def _go_round(self, name: str, part: Part) -> None:
        while not self._stopping.is_set():
            self.go_round(name)
            self._stopping.wait(self._interval_s)

    def _watch(self) -> None:
        while not self._stopping.wait(min(self._interval_s, 5.0)):
            self.look()

    def _tell(self, name: str, part: Part) -> None:
        """Log one line when a part fails, and one when it works again. A start takes its time: a late one fails."""
        problem = self._problem(part)
        is_starting = not part.has_worked and self._clock() - self._started_at <= self._limit_s
        if problem and name not in self._warned and not is_starting:
            LOG.warning("Not ready: %s: %s", name, problem)
            self._warned.add(name)
        elif not problem and name in self._warned:
            LOG.info("%s can be reached again", name)
            self._warned.remove(name)
        if problem:
            self._said[name] = f"{name}: {problem}"
        else:
            self._said.pop(name, None)

    def _problem(self, part: Part) -> str:
        if part.begun_at is not None and self._clock() - part.begun_at > self._limit_s:
            return f"a round trip has not ended for {self._clock() - part.begun_at:.0f} s"
        return part.problem

    def _count_failing_alone(self, name: str, part: Part) -> None:
        """Begin, continue or end the time in which the part fails although it can be reached."""
        fails = bool(self._stuck_s and name in self._reachable and self._problem(part))
        if not fails or not self._reachable[name]():
            part.failing_alone_since = None
        elif part.failing_alone_since is None:
            part.failing_alone_since = self._clock()

    def _stuck(self) -> str:
        """Return the parts that are reachable but had no successful round trip for too long."""
        now = self._clock()
        since = {name: part.failing_alone_since for name, part in self._parts.items()}
        return ", ".join(name for name, begun in since.items() if begun is not None and now - begun > self._stuck_s)
