# SPDX-License-Identifier: Apache-2.0
"""Deferred work: log lines, metrics and notifications of a call, done after its reply is sent.

The caller does not wait for this work. The same thread does it right after the reply, with the context that was
current when the work was deferred, and a stop that waits for the handler also waits for the deferred work.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from oslo_context import context as oslo_context
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

_Work = Callable[[], object]
_Context = oslo_context.RequestContext | None


class _Thread(threading.local):
    waiting: list[tuple[_Context, _Work]] | None = None


_thread = _Thread()


def after_reply(work: _Work) -> None:
    """Run ``work`` after the reply to this thread's call; at once if the thread handles no call."""
    if _thread.waiting is None:
        work()
    else:
        _thread.waiting.append((oslo_context.get_current(), work))


@contextlib.contextmanager
def replying() -> Iterator[None]:
    """Surround the handling of one message, its reply included. An exception of deferred work is logged, because no
    caller is left.
    """
    waiting: list[tuple[_Context, _Work]] = []
    _thread.waiting = waiting
    try:
        yield
    finally:
        _thread.waiting = None
        for context, work in waiting:
            # Work before it may have made a context of its own, which is current since then.
            if context is not None:
                context.update_store()
            try:
                work()
            except Exception:
                LOG.exception("Deferred work failed after a call was answered")
