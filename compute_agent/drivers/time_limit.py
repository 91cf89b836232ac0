# SPDX-License-Identifier: Apache-2.0
"""Work that may hang, such as a hypervisor's: it is waited for no longer than it may take."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent import futures
from typing import Protocol, TypeVar

from fleet.context import RequestContext

Result = TypeVar("Result")


class Overrun(Exception):
    """It was not over in time. Whether it will ever be, and what it will have done then, nobody knows."""


class Within(Protocol):
    """How bounded work is run; a simulation has no threads, and its own."""

    def __call__(self, context: RequestContext, limit_s: float | None, work: Callable[[], Result]) -> Result: ...


def run_within(context: RequestContext, limit_s: float | None, work: Callable[[], Result]) -> Result:
    """What ``work`` returns or raises. It runs in a thread of its own, which is left to itself after ``limit_s``.

    :param limit_s: None: as long as it takes, and then here
    :raises Overrun: it is not over
    """
    if limit_s is None:
        return work()
    outcome: futures.Future[Result] = futures.Future()

    def run() -> None:
        # The log finds the request in the thread.
        context.update_store()
        try:
            outcome.set_result(work())
        except BaseException as failure:
            outcome.set_exception(failure)

    # A daemon, so that what hangs does not keep the process from ending.
    threading.Thread(target=run, name="driver", daemon=True).start()
    futures.wait([outcome], limit_s)
    if not outcome.done():
        raise Overrun(f"it is not over after {limit_s:g} s")
    return outcome.result()
