# SPDX-License-Identifier: Apache-2.0
"""What can wait until a call has its answer: a line in the log, the numbers, a notification that it is over.

Whoever waits for the answer does not wait for these. The same thread does them next, so that its context is still the
call's, and a stop that waits for the handler waits for them, too.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

_Work = Callable[[], object]


class _Thread(threading.local):
    waiting: list[_Work] | None = None


_thread = _Thread()


def after_reply(work: _Work) -> None:
    """Do it as soon as this thread's call is answered; at once, where it answers none."""
    if _thread.waiting is None:
        work()
    else:
        _thread.waiting.append(work)


@contextlib.contextmanager
def replying() -> Iterator[None]:
    """Around the work on one message, its answer included. What fails afterwards is logged: nobody else is there to hear."""
    waiting: list[_Work] = []
    _thread.waiting = waiting
    try:
        yield
    finally:
        _thread.waiting = None
        for work in waiting:
            try:
                work()
            except Exception:
                LOG.exception("A call was answered, and what was to follow failed")
