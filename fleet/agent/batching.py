# SPDX-License-Identifier: Apache-2.0
"""Batches the calls of all hosts or backends of a process into few messages to the conductor.

Steps that come during a call wait, and one of their threads sends them all in the next call. A single one is thus
sent at once, and a thousand hosts send about as many messages as the conductor can answer.

::

    ask ──▶ waiting ── no call under way ──▶ one of them sends all that wait ──▶ each has its answer, or its error
                    └─ nor answered for a second: a call that may be lost delays no other step
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Protocol

from oslo_log import log as logging

from fleet import errors
from fleet.agent.patience import UNKNOWN_OUTCOME
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.rpc import batch_answers

LOG = logging.getLogger(__name__)

#: Steps in one call. When this many wait, they are sent at once.
MOST = 32
#: Calls on their way that new steps wait for. With more of them each would carry less.
CALLS = 1
#: Seconds after which an unanswered call no longer delays others.
HOLDS_UP_S = 1.0


class Signal(Protocol):
    """The part of ``threading.Event`` that is used."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def wait(self, timeout: float | None = None) -> object: ...


class Step:
    """One call. If its batch fails, it is sent once more alone, so a bad step fails other steps once at most."""

    def __init__(
        self, batcher: Batcher, context: RequestContext, method: str, arguments: JSONObject, woken: Signal
    ) -> None:
        self._batcher = batcher
        self.context = context
        self.method = method
        self.arguments = arguments
        #: Set when the step is over, or its thread may send.
        self.woken = woken
        self.taken = self.over = self.alone = False
        self.answer: dict[str, object] | None = None
        self.failure: Exception | None = None

    def ask(self) -> object:
        """:raises errors.FleetError: as the conductor's own method does
        :raises oslo_messaging.MessagingException: as the conductor's own method does
        """
        return self._batcher.ask(self)

    def to_wire(self) -> dict[str, object]:
        return {"method": self.method, **self.context.whose(), **self.arguments}


@dataclasses.dataclass(eq=False)
class _Call:
    """``began`` is by the clock of :class:`Batcher`."""

    steps: list[Step]
    began: float


class Conductor(Protocol):
    """A client with the methods of the steps, and one that takes several steps: see ``several`` of :class:`Batcher`."""

    def takes_steps(self) -> bool:
        """Return True if several steps may be sent in one message."""


class Batcher:
    """Thread-safe. The lock guards the waiting steps and the calls on their way; nothing is sent under it.

    :param several: name of the client's method for several steps. It answers as :mod:`fleet.rpc.batch_answers` says
    """

    def __init__(
        self,
        conductor: Conductor,
        clock: Callable[[], float] = time.monotonic,
        signal: Callable[[], Signal] = threading.Event,
        several: str = "build_steps",
    ) -> None:
        self._conductor = conductor
        self._several = several
        self._clock = clock
        self._signal = signal
        self._lock = threading.Lock()
        self._waiting: list[Step] = []
        self._under_way: list[_Call] = []

    def step(self, context: RequestContext, method: str, **arguments: object) -> Step:
        """:param method: of the client, with its ``arguments``"""
        return Step(self, context, method, arguments, self._signal())

    def ask(self, step: Step) -> object:
        """See :meth:`Step.ask`."""
        if step.alone or not self._conductor.takes_steps():
            return self._ask_one(step)
        step.alone = True
        call = self._turn(step)
        if call is not None:
            try:
                if call.steps == [step]:
                    return self._ask_one(step)
                self._ask_all(call.steps)
            finally:
                self._end(call)
        if step.failure is not None:
            raise step.failure
        # The batch was refused, or the thread that sends it has died: call alone.
        return self._ask_one(step) if step.answer is None else batch_answers.read(step.answer)

    def _turn(self, step: Step) -> _Call | None:
        """Return a call to send for ``step`` and others; None if another thread has sent it and it is over."""
        step.taken = step.over = False
        with self._lock:
            self._waiting.append(step)
        while not step.over:
            held_up_s = None
            with self._lock:
                if not step.taken:
                    held_up_s = self._held_up_s()
                    if not held_up_s:
                        return self._begin(step)
            step.woken.wait(held_up_s)
            step.woken.clear()
        return None

    def _held_up_s(self) -> float:
        """Return the seconds for which no call may be sent, at most."""
        now = self._clock()
        ends = sorted(call.began + HOLDS_UP_S for call in self._under_way if call.began + HOLDS_UP_S > now)
        return 0.0 if len(ends) < CALLS or len(self._waiting) >= MOST else ends[-CALLS] - now

    def _begin(self, step: Step) -> _Call:
        # Any of them may be the first to see that it may be sent: they go in the order in which they arrived.
        steps = self._waiting[:MOST]
        if step not in steps:
            steps[-1] = step
        call = _Call(steps, self._clock())
        for each in steps:
            self._waiting.remove(each)
            each.taken = True
        self._under_way.append(call)
        return call

    def _end(self, call: _Call) -> None:
        with self._lock:
            self._under_way.remove(call)
            due = [*self._waiting[:1], *call.steps]
        for step in call.steps:
            step.over = True
        for step in due:
            step.woken.set()

    def _ask_one(self, step: Step) -> object:
        return getattr(self._conductor, step.method)(step.context, **step.arguments)

    def _ask_all(self, steps: list[Step]) -> None:
        """Send all steps in one call. Each then has its answer or its failure; neither if the call as a whole was
        refused.
        """
        try:
            send = getattr(self._conductor, self._several)
            told = send(steps[0].context, [step.to_wire() for step in steps])
            for step, answer in zip(steps, told, strict=True):
                step.answer = answer
        except UNKNOWN_OUTCOME as silence:
            for step in steps:
                step.failure = silence
        except errors.FleetError as refusal:
            LOG.info("%s: calling %d steps one by one: %s", self._several, len(steps), refusal.message)
        except Exception:
            # A bug in one step must not end the others.
            LOG.exception("%s: calling %d steps one by one", self._several, len(steps))
