# SPDX-License-Identifier: Apache-2.0
"""Calls of the lean driver while the node of the broker dies that has the queue for replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import oslo_messaging
import pytest

from fleet.rpc.rabbit.lean import topology, wire
from fleet.rpc.rabbit.lean.callers import Callers
from fleet.rpc.rabbit.lean.driver import LeanDriver
from fleet.rpc.rabbit.lean.publication import Outcome, Publication


class Outgoing:
    """``happens`` are what happens when a message is published, in turn."""

    def __init__(self, *happens: Callable[[Outgoing, Publication], object]) -> None:
        self.callers = Callers()
        self._happens = list(happens)
        self.another_queue()

    def another_queue(self) -> None:
        self.reply_queue = topology.Queue(f"reply_{id(object())}_{len(self._happens)}", _NO_EXCHANGE, "", True, False)

    def publish(self, publication: Publication, _timeout_s: float | None) -> None:
        publication.reply_queue = self.reply_queue.name
        self._happens.pop(0)(self, publication)

    def receive(self, arrived: Any, _deadline: float | None) -> object:
        return arrived.get(timeout=0)

    def reply(self, result: object) -> None:
        (msg_id,) = self.callers.waiting()
        self.callers._arrivals[msg_id].put(wire.Reply(msg_id, None, result, None, True))


_NO_EXCHANGE = topology.Exchange("")


def lost_with_its_queue(out: Outgoing, publication: Publication) -> None:
    """The connection is lost before the broker has confirmed. On the next one there is another queue for replies."""
    publication.ended(Outcome.LOST)
    out.another_queue()
    out.callers.lose(out.callers.waiting())


def confirmed_by_another_thread(out: Outgoing, publication: Publication) -> None:
    """Before the caller has read what arrived for it."""
    publication.ended(Outcome.ACCEPTED)
    out.reply("done")


def confirmed_and_then_lost(out: Outgoing, publication: Publication) -> None:
    publication.ended(Outcome.ACCEPTED)
    out.another_queue()
    out.callers.lose(out.callers.waiting())


def called(out: Outgoing) -> object:
    driver = object.__new__(LeanDriver)
    driver._out = lambda: out  # type: ignore[method-assign,assignment]
    return driver._call(topology.Exchange("e"), "key", {}, {"method": "m"}, 30.0, None, False)


def test_a_call_that_was_published_again_gets_its_reply() -> None:
    """It names the new queue, so the loss of the former one is of no concern."""
    assert "done" == called(Outgoing(lost_with_its_queue, confirmed_by_another_thread))


def test_a_call_whose_reply_cannot_come_ends() -> None:
    """Its server has the name of the lost queue."""
    with pytest.raises(oslo_messaging.MessagingTimeout, match="is lost: the broker's node"):
        called(Outgoing(confirmed_and_then_lost))
