# SPDX-License-Identifier: Apache-2.0
"""Messages of the lean driver while the broker is in trouble: the node dies that has the queue for replies, or the broker
blocks the connection.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

import oslo_messaging
import pytest

from fleet.rpc.rabbit.lean import outgoing, topology, wire
from fleet.rpc.rabbit.lean.callers import Callers
from fleet.rpc.rabbit.lean.driver import LeanDriver
from fleet.rpc.rabbit.lean.publication import Outcome, Publication
from tests.unit.rpc.test_lean_threads import SETTINGS


class Outgoing:
    """``happens`` are what happens when a message is published, in turn."""

    def __init__(self, *happens: Callable[[Outgoing, Publication], object]) -> None:
        self.callers = Callers(SETTINGS)
        self._happens = list(happens)

    def another_queue(self) -> None:
        self.callers.queue = topology.reply_queue(SETTINGS)

    def publish(self, publication: Publication, _timeout_s: float | None) -> None:
        publication.reply_queue = self.callers.queue.name
        self._happens.pop(0)(self, publication)

    def receive(self, arrived: Any, _deadline: float | None) -> object:
        return arrived.get(timeout=0)

    def reply(self, result: object) -> None:
        (msg_id,) = self.callers.waiting()
        self.callers._arrivals[msg_id].put(wire.Reply(msg_id, None, result, None, True))


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


class Blocked:
    """A connection that the broker blocks. ``written`` are the bodies of what is written to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.link = mock.MagicMock()
        self.link.connection.is_blocked = True
        self.out = outgoing.Outgoing(SETTINGS)
        self.out._publisher, self.out._thread = mock.MagicMock(link=self.link), threading.current_thread()
        self.written: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        monkeypatch.setattr(self.out, "_write", self._write)

    def _write(self, _publisher: object, publication: Publication, _with_queue: bool) -> bool:
        self.written.put(publication.body)
        return True

    def publish(self, timeout_s: float | None) -> None:
        self.out.publish(Publication(topology.Exchange("e"), "key", b"sent", mock.Mock()), timeout_s)

    def free(self) -> None:
        self.link.connection.is_blocked = False
        self.out._is_free()


def test_nothing_is_written_to_a_connection_that_is_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message with a time limit ends with the reason; one without a limit waits."""
    blocked = Blocked(monkeypatch)
    with pytest.raises(outgoing.NotSent, match="accepts no messages now: it has too little memory or disk space"):
        blocked.publish(0.0)
    sender = threading.Thread(target=blocked.publish, args=(None,), daemon=True)
    sender.start()
    assert blocked.written.empty()
    blocked.free()
    assert b"sent" == blocked.written.get(timeout=30)
    sender.join(30)
    blocked.out.close()


def test_a_sender_does_not_wait_for_a_node_that_the_driver_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked, new = Blocked(monkeypatch), mock.MagicMock()
    new.connection.is_blocked = False
    monkeypatch.setattr(outgoing, "Retiring", mock.MagicMock())
    sender = threading.Thread(target=blocked.publish, args=(None,), daemon=True)
    sender.start()
    assert blocked.written.empty()
    blocked.out._exchanged(mock.MagicMock(link=new), topology.reply_queue(SETTINGS))
    assert b"sent" == blocked.written.get(timeout=30)
    sender.join(30)
    blocked.out.close()


def test_replies_wait_until_the_broker_accepts_messages_again(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = Blocked(monkeypatch)
    for body in (b"one", b"two"):
        blocked.out.reply("reply_1", body)
    assert blocked.written.empty()
    blocked.free()
    assert [b"one", b"two"] == [blocked.written.get(timeout=30) for _reply in range(2)]
    blocked.out.close()
