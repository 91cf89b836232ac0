# SPDX-License-Identifier: Apache-2.0
"""Calls to the conductor that are repeated until they are answered, because a timeout is an unknown outcome.

The agents call the conductor through it only.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import oslo_messaging
from oslo_log import log as logging

from fleet import errors

LOG = logging.getLogger(__name__)

Answer = TypeVar("Answer")
P = ParamSpec("P")

#: No answer, or an error while answering: in both cases the call may have been executed. An answer of conductors of
#: another ledger counts as no answer.
UNKNOWN_OUTCOME = (oslo_messaging.MessagingException, errors.DatabaseError, ConnectionError, errors.ForeignLedger)
FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 10.0
#: Tries between two log lines about another ledger: about a minute.
FOREIGN_EVERY = 6


class Unanswered(Exception):
    """No answer before the time limit or the agent's stop. It is unknown whether the call was executed; the sweeper
    finds it.
    """


class Patience:
    """Repeats a call until it is answered, with growing pauses. ``stopping`` ends every pause."""

    def __init__(
        self,
        stopping: threading.Event,
        clock: Callable[[], float] = time.monotonic,
        first_delay_s: float = FIRST_DELAY_S,
    ) -> None:
        self._stopping = stopping
        self._clock = clock
        self._first_delay_s = first_delay_s

    def call(self, limit_s: float | None, method: Callable[P, Answer], *args: P.args, **kwargs: P.kwargs) -> Answer:
        """Call a client's method with these arguments; see :meth:`until_answered`."""
        return self.until_answered(method.__name__, functools.partial(method, *args, **kwargs), limit_s)

    def until_answered(self, what: str, call: Callable[[], Answer], limit_s: float | None) -> Answer:
        """:raises Unanswered: after ``limit_s`` (None: never), or when the agent stops"""
        end = None if limit_s is None else self._clock() + limit_s
        delay = self._first_delay_s
        tries = 0
        while True:
            try:
                answer = call()
            except UNKNOWN_OUTCOME as silence:
                tries += 1
                _log(what, silence, tries)
            else:
                if tries:
                    LOG.info("%s was answered after %d tries", what, tries + 1)
                return answer
            if (end is not None and self._clock() + delay > end) or self._stopping.wait(delay):
                raise Unanswered(f"{what}: no answer after {tries} tries")
            delay = min(2 * delay, LONGEST_DELAY_S)


def _log(what: str, silence: Exception, tries: int) -> None:
    """Warn once at the beginning; further tries are logged at debug. An error that needs an operator is repeated."""
    if isinstance(silence, errors.ForeignLedger) and tries % FOREIGN_EVERY == 1:
        LOG.error(
            "%s is refused and will be repeated: %s Two databases share this virtual host.", what, silence.message
        )
        return
    level = logging.WARNING if tries == 1 else logging.DEBUG
    LOG.log(level, "No answer to %s (%s); asking again", what, type(silence).__name__)
