# SPDX-License-Identifier: Apache-2.0
"""The order of work on one host: one job at a time for an instance, a bounded number of builds at a time."""

from __future__ import annotations

import collections
import dataclasses
import threading
import time
from collections.abc import Callable
from concurrent import futures

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class _Job:
    work: Callable[[], None]
    takes_slot: bool
    dropped: Callable[[], None] | None


class Lanes:
    """One lane for each instance, first come first served; the threads come from an executor that hosts share.

    A job that waits, for its lane or for a build slot, holds no thread, so a busy host does not starve its neighbours.
    The lock guards the queues; no job runs under it. Life of a job::

        submit ──▶ waiting for its lane ──▶ waiting for a slot ──▶ running ──▶ over
                          │ cancel, close          │
                          └────────────────────────┴──▶ dropped
    """

    def __init__(self, executor: futures.Executor, slots: int) -> None:
        self._executor = executor
        #: 0 is no limit, as in max_concurrent_builds.
        self._slots = slots
        self._changed = threading.Condition()
        self._lanes: dict[str, collections.deque[_Job]] = {}
        self._waiting_for_slot: collections.deque[str] = collections.deque()
        self._slots_taken = 0
        self._running: set[str] = set()
        self._closed = False

    def submit(
        self,
        lane: str,
        work: Callable[[], None],
        takes_slot: bool = False,
        dropped: Callable[[], None] | None = None,
    ) -> bool:
        """Queue ``work``; False when closed: nothing is begun any more.

        :param dropped: what :meth:`close` returns if the work has not begun by then
        """
        with self._changed:
            if self._closed:
                return False
            jobs = self._lanes.setdefault(lane, collections.deque())
            jobs.append(_Job(work, takes_slot, dropped))
            if len(jobs) == 1:
                self._next(lane)
            return True

    def busy(self, lane: str) -> bool:
        """Whether anything runs or waits there."""
        with self._changed:
            return lane in self._lanes

    def cancel(self, lane: str) -> int:
        """Drop what has not begun in ``lane``; returns how many jobs that were."""
        with self._changed:
            return len(self._drop(lane))

    def close(self) -> list[Callable[[], None]]:
        """Begin nothing more; returns what is to be done about the jobs that are dropped by it."""
        with self._changed:
            self._closed = True
            jobs = [job for lane in list(self._lanes) for job in self._drop(lane)]
        return [job.dropped for job in jobs if job.dropped is not None]

    def _drop(self, lane: str) -> list[_Job]:
        jobs = self._lanes.get(lane)
        if jobs is None:
            return []
        keep = 1 if lane in self._running else 0
        dropped = [jobs.pop() for _ in range(len(jobs) - keep)]
        if not jobs:
            del self._lanes[lane]
            self._waiting_for_slot.remove(lane)
        return dropped

    def wait(self, timeout_s: float) -> bool:
        """Whether all that was running is over in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._lanes, timeout_s)

    def _next(self, lane: str) -> None:
        job = self._lanes[lane][0]
        if not job.takes_slot:
            self._begin(lane, job)
        elif not self._slots or self._slots_taken < self._slots:
            self._slots_taken += 1
            self._begin(lane, job)
        else:
            self._waiting_for_slot.append(lane)

    def _begin(self, lane: str, job: _Job) -> None:
        self._running.add(lane)
        self._executor.submit(self._run, lane, job)

    def _run(self, lane: str, job: _Job) -> None:
        begun = time.monotonic()
        try:
            job.work()
        except Exception:
            LOG.exception("Work on instance %s failed after %.1f s", lane, time.monotonic() - begun)
        with self._changed:
            self._end(lane, job)
            self._changed.notify_all()

    def _end(self, lane: str, job: _Job) -> None:
        self._running.discard(lane)
        jobs = self._lanes[lane]
        jobs.popleft()
        if job.takes_slot:
            self._slots_taken -= 1
            if self._waiting_for_slot:
                self._next(self._waiting_for_slot.popleft())
        if jobs:
            self._next(lane)
        else:
            del self._lanes[lane]
