# SPDX-License-Identifier: Apache-2.0
"""Queues of work of one host: one job at a time for each instance or volume, and a limited number of builds at a time.

The managers of both agents put the jobs into them.
"""

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
    once: str


class WorkQueues:
    """One queue for each instance or volume, by uuid, first in first out. Hosts share the threads of an executor.

    A job that waits, in its queue or for a build slot, holds no thread, so a busy host does not starve others.
    The lock guards the queues; no job runs under it. Life of a job::

        submit ──▶ waiting in its queue ─▶ waiting for a slot ──▶ running ──▶ over
                          │ cancel, close          │
                          └────────────────────────┴──▶ dropped
    """

    def __init__(self, executor: futures.Executor, slots: int) -> None:
        self._executor = executor
        #: 0 is no limit, as in max_concurrent_builds.
        self._slots = slots
        self._changed = threading.Condition()
        self._queues: dict[str, collections.deque[_Job]] = {}
        self._waiting_for_slot: collections.deque[str] = collections.deque()
        #: Queues whose running job has a slot.
        self._with_slot: set[str] = set()
        self._running: set[str] = set()
        self._closed = False

    def submit(
        self,
        uuid: str,
        work: Callable[[], None],
        takes_slot: bool = False,
        dropped: Callable[[], None] | None = None,
        once: str = "",
    ) -> bool:
        """Queue ``work``. Return False after :meth:`close`.

        :param dropped: returned by :meth:`close` if the work has not begun by then
        :param once: name of work that reads what it must do when it begins: while one of this name waits in the queue,
            another one would find nothing to do, and is not queued
        """
        with self._changed:
            if self._closed:
                return False
            jobs = self._queues.setdefault(uuid, collections.deque())
            begun = 1 if uuid in self._running else 0
            if once and any(each.once == once for each in list(jobs)[begun:]):
                return True
            jobs.append(_Job(work, takes_slot, dropped, once))
            if len(jobs) == 1:
                self._next(uuid)
            return True

    def give_back_slot(self, uuid: str) -> None:
        """The running job of ``uuid`` needs no slot any more: from now on it only waits for something else."""
        with self._changed:
            self._free_slot(uuid)

    def busy(self, uuid: str) -> bool:
        """Return True if a job of ``uuid`` runs or waits."""
        with self._changed:
            return uuid in self._queues

    def cancel(self, uuid: str) -> int:
        """Drop the jobs of ``uuid`` that have not begun; return their number."""
        with self._changed:
            return len(self._drop(uuid))

    def close(self) -> list[Callable[[], None]]:
        """Begin nothing more. Return the ``dropped`` functions of the jobs that will not run."""
        with self._changed:
            self._closed = True
            jobs = [job for uuid in list(self._queues) for job in self._drop(uuid)]
        return [job.dropped for job in jobs if job.dropped is not None]

    def _drop(self, uuid: str) -> list[_Job]:
        jobs = self._queues.get(uuid)
        if jobs is None:
            return []
        keep = 1 if uuid in self._running else 0
        dropped = [jobs.pop() for _ in range(len(jobs) - keep)]
        if not jobs:
            del self._queues[uuid]
            self._waiting_for_slot.remove(uuid)
        return dropped

    def wait(self, timeout_s: float) -> bool:
        """Return True if all running jobs end in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queues, timeout_s)

    def _next(self, uuid: str) -> None:
        job = self._queues[uuid][0]
        if not job.takes_slot:
            self._begin(uuid, job)
        elif not self._slots or len(self._with_slot) < self._slots:
            self._with_slot.add(uuid)
            self._begin(uuid, job)
        else:
            self._waiting_for_slot.append(uuid)

    def _begin(self, uuid: str, job: _Job) -> None:
        """Hand the job to the executor.

        If the machine has no thread for it, the executor keeps the job until one of its threads is free. An error must not
        leave here: the end of another job would then begin neither this one nor the next of its own queue.
        """
        self._running.add(uuid)
        try:
            self._executor.submit(self._run, uuid, job)
        except RuntimeError as none:
            LOG.error("There is no thread for work on %s: %s", uuid, none)

    def _run(self, uuid: str, job: _Job) -> None:
        begun = time.monotonic()
        try:
            job.work()
        except Exception:
            LOG.exception("Work on %s failed after %.1f s", uuid, time.monotonic() - begun)
        with self._changed:
            self._end(uuid)
            self._changed.notify_all()

    def _end(self, uuid: str) -> None:
        self._running.discard(uuid)
        jobs = self._queues[uuid]
        jobs.popleft()
        self._free_slot(uuid)
        if jobs:
            self._next(uuid)
        else:
            del self._queues[uuid]

    def _free_slot(self, uuid: str) -> None:
        if uuid not in self._with_slot:
            return
        self._with_slot.remove(uuid)
        if self._waiting_for_slot:
            self._next(self._waiting_for_slot.popleft())
