# SPDX-License-Identifier: Apache-2.0
"""The process can start no thread for a while: afterwards it sends, receives and gives signs of life as before."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import types
from unittest import mock

import pytest

from fleet.rpc import call_monitor
from fleet.rpc.rabbit.lean import again, incoming, outgoing, publication, shared_queues, topology
from fleet.rpc.rabbit.lean.settings import Broker, Settings

_NODE = Broker("nowhere", 5672, "", "", None)
SETTINGS = Settings(
    brokers=(_NODE, Broker("elsewhere", 5672, "", "", None)),
    virtual_host="/",
    heartbeat_s=10,
    heartbeat_rate=2,
    prefetch=8,
    durable=False,
    persistent=False,
    auto_delete=False,
    durable_transient=False,
    queue_arguments={},
    unused_queues_s=120,
    mandatory_replies=True,
    return_interval_s=60,
)


class NoThreads:
    """In the place of ``Thread.start``: threads with this name do not start until ``end`` is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self._name = name
        self._start, self._is_over = threading.Thread.start, False
        self.refused = threading.Event()
        monkeypatch.setattr(threading.Thread, "start", lambda thread: self(thread))

    def __call__(self, thread: threading.Thread) -> None:
        if thread.name == self._name and not self._is_over:
            self.refused.set()
            raise RuntimeError("can't start new thread")
        self._start(thread)

    def end(self) -> None:
        self._is_over = True


def cast(out: outgoing.Outgoing, timeout_s: float | None) -> None:
    out.publish(publication.Publication(topology.Exchange("e"), "key", b"{}", mock.Mock()), timeout_s)


def test_a_message_is_sent_when_the_thread_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message with a time limit ends as one without a broker does; a later one starts the thread."""
    none, out = NoThreads(monkeypatch, "rpc-outgoing"), outgoing.Outgoing(SETTINGS)
    link = mock.MagicMock()
    link.connection.is_blocked = False
    monkeypatch.setattr(out, "_write", lambda *_message: True)
    monkeypatch.setattr(out, "_keep_open", lambda _pauses: opened(out, link))
    with pytest.raises(outgoing.NotSent, match="does not start: can't start new thread"):
        cast(out, 0.0)
    sender = threading.Thread(target=cast, args=(out, None), name="sender", daemon=True)
    sender.start()
    assert none.refused.wait(30)
    none.end()
    sender.join(30)
    assert not sender.is_alive()
    out.close()


def opened(out: outgoing.Outgoing, link: outgoing.Link) -> None:
    """What the driver's thread does when a broker accepts its connection."""
    with out._lock:
        out._publisher = mock.MagicMock(link=link)
        out._ready.notify_all()
    out._closing.wait()


def test_a_listener_that_cannot_return_to_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays where it is, and may open another connection when this one is lost."""
    monkeypatch.setattr(incoming.Listener, "_connect", lambda _listener: None)
    listener = incoming.Listener(SETTINGS, mock.Mock(), [])
    listener._current = mock.MagicMock()
    listener._current.link.wait.return_value = False
    listener._current.link.tick_s = 1.0
    listener._nodes = mock.Mock(home=_NODE)
    NoThreads(monkeypatch, "rpc-returning")
    listener._listen(time.monotonic())
    assert [mock.call(_NODE)] == listener._nodes.lost.mock_calls
    assert listener._opening.acquire(blocking=False)
    listener._opening.release()
    listener.cleanup()


def test_a_reader_of_host_queues_without_a_thread_keeps_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that no thread reads would take the orders of the host."""
    current = mock.MagicMock()
    monkeypatch.setattr(incoming.Listener, "_connect", lambda listener: setattr(listener, "_current", current))
    NoThreads(monkeypatch, "host-queues")
    queues = shared_queues.SharedQueues(SETTINGS, mock.Mock(), "compute", "hosts")
    with contextlib.suppress(RuntimeError):
        queues.serve("h1", mock.Mock())
    assert [mock.call()] == current.close.mock_calls


def test_rejected_replies_are_sent_with_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    none, sent, closing = NoThreads(monkeypatch, "rpc-again"), queue.SimpleQueue(), threading.Event()
    replies = again.Again(sent.put, closing)
    for number in range(2):
        replies.add(mock.Mock(pause_s=lambda: 0.0, number=number))
        none.end()
    assert [0, 1] == [sent.get(timeout=30).number for _reply in range(2)]
    closing.set()


def test_a_call_without_the_thread_that_sends_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is handled, and a later call starts the thread."""
    none, monitor, beaten = NoThreads(monkeypatch, "call-monitor"), call_monitor.CallMonitor(), threading.Event()
    monkeypatch.setattr(call_monitor, "LOOK_S", 0.01)
    monkeypatch.setattr(call_monitor, "IDLE_S", 0.0)
    call = types.SimpleNamespace(client_timeout=2, heartbeat=beaten.set)
    with monitor.watching(call):
        assert none.refused.is_set()
    assert {} == monitor._calls
    none.end()
    with monitor.watching(call):
        assert beaten.wait(30)


def test_a_connection_that_cannot_be_left_in_peace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The messages under way on it end as lost, so their senders publish them again on the new connection."""
    out, ends = outgoing.Outgoing(SETTINGS), mock.Mock()
    NoThreads(monkeypatch, "rpc-retiring")
    former, new = mock.MagicMock(), mock.MagicMock()
    former.end.return_value = [types.SimpleNamespace(ended=ends)]
    out._publisher = former
    assert new.link is out._exchanged(new, topology.reply_queue(SETTINGS))
    assert [mock.call(publication.Outcome.LOST)] == ends.mock_calls
    assert [mock.call()] == former.link.close.mock_calls
    out.close()
