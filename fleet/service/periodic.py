# SPDX-License-Identifier: Apache-2.0
"""The parts of a worker process: anything with start and stop, and work that repeats.

Called by :mod:`fleet.service` and :mod:`fleet.service.worker`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from oslo_log import log as logging

from fleet import errors
from fleet.telemetry import rate_limited_log

LOG = logging.getLogger(__name__)
#: Of all tasks of the process: without a database or a broker each of them fails, every time, for the same reason.
_failures = rate_limited_log.RateLimit()


class Runnable(Protocol):
    """A part of a worker process, such as an RPC server or a periodic loop."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def wait(self) -> None: ...


class Periodic:
    """Calls ``work`` every ``interval_s`` seconds in a thread of its own, the first time after ``initial_s``.

    An exception is logged, once a minute for each kind, and the next call happens as usual.
    """

    def __init__(self, name: str, work: Callable[[], object], interval_s: float, initial_s: float = 0.0) -> None:
        self._name = name
        self._work = work
        self._interval_s = interval_s
        self._initial_s = initial_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join(timeout=10)

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        delay = self._initial_s
        while not self._stopping.wait(delay):
            self.go_round()
            delay = self._interval_s

    def go_round(self) -> None:
        """Call the work once, and log its failure."""
        try:
            self._work()
        except errors.DatabaseUnavailable as away:
            self._log(LOG.error, away.message, type(away).__name__)
        except errors.FleetError as refusal:
            self._log(LOG.error, refusal.message, f"{self._name}: {type(refusal).__name__}")
        except Exception as failure:
            self._log(LOG.exception, type(failure).__name__, f"{self._name}: {type(failure).__name__}")

    def _log(self, write: Callable[..., None], problem: str, kind: str) -> None:
        left_out = _failures.due(kind)
        if left_out is not None:
            write(
                "Periodic task %s failed, next try in %s s: %s (%d more such lines were left out)",
                self._name, self._interval_s, problem, left_out,
            )  # fmt: skip
