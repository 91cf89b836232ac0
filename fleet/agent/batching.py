# SPDX-License-Identifier: Apache-2.0
"""Batches the calls of all hosts or backends of a process into few messages to the conductor.

Steps that come during a call wait, and one of their threads sends them all in the next call (:mod:`fleet.bundles`). A
single one is thus sent at once, and a thousand hosts send about as many messages as the conductor can answer. A call that
may be lost delays no other step for more than a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from oslo_log import log as logging

from fleet import errors
from fleet.agent.patience import UNKNOWN_OUTCOME
from fleet.bundles import Bundles, Entry, Signal
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.rpc import batch_answers

LOG = logging.getLogger(__name__)


class Step(Entry):
    """One call. If its batch fails, it is sent once more alone, so a bad step fails other steps once at most."""

    def __init__(
        self, batcher: Batcher, context: RequestContext, method: str, arguments: JSONObject, woken: Signal
    ) -> None:
        super().__init__(woken)
        self._batcher = batcher
        self.context = context
        self.method = method
        self.arguments = arguments
        self.alone = False
        self.answer: dict[str, object] | None = None
        self.failure: Exception | None = None

    def ask(self) -> object:
        """:raises errors.FleetError: as the conductor's own method does
        :raises oslo_messaging.MessagingException: as the conductor's own method does
        """
        return self._batcher.ask(self)

    def to_wire(self) -> dict[str, object]:
        return {"method": self.method, **self.context.whose(), **self.arguments}


class Conductor(Protocol):
    """A client with the methods of the steps, and one that takes several steps: see ``several`` of :class:`Batcher`."""

    def takes_steps(self) -> bool:
        """Return True if several steps may be sent in one message."""


class Batcher:
    """Thread-safe.

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
        self._signal = signal
        self._bundles: Bundles[Step] = Bundles(clock, full_at_once=True)

    def step(self, context: RequestContext, method: str, **arguments: object) -> Step:
        """:param method: of the client, with its ``arguments``"""
        return Step(self, context, method, arguments, self._signal())

    def ask(self, step: Step) -> object:
        """See :meth:`Step.ask`."""
        if step.alone or not self._conductor.takes_steps():
            return self._ask_one(step)
        step.alone = True
        bundle = self._bundles.take(step)
        if bundle is not None:
            try:
                if bundle.entries == [step]:
                    return self._ask_one(step)
                self._ask_all(bundle.entries)
            finally:
                self._bundles.end(bundle)
        if step.failure is not None:
            raise step.failure
        # The batch was refused, or the thread that sends it has died: call alone.
        return self._ask_one(step) if step.answer is None else batch_answers.read(step.answer)

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
