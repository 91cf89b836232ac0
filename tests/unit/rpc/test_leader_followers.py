# SPDX-License-Identifier: Apache-2.0
"""The threads of a server, on a listener that counts its readers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from oslo_messaging._drivers import base

from fleet.rpc.rabbit import leader_followers

PATIENCE_S = 10


class Queue(base.PollStyleListener):
    """Like oslo.messaging's for RabbitMQ: a stop waits until a thread has found no more messages."""

    def __init__(self) -> None:
        super().__init__()
        self.news = threading.Condition()
        self.waiting: list[str] = []
        self.listening = 0
        self.most_listening = 0
        self.stopped = False
        self.shut = threading.Event()

    @base.batch_poll_helper
    def poll(self, timeout: float | None = None) -> str | None:
        with self.news:
            self.listening += 1
            self.most_listening = max(self.most_listening, self.listening)
            self.news.notify_all()
            assert self.news.wait_for(lambda: self.waiting or self.stopped, PATIENCE_S)
            self.listening -= 1
            if self.waiting:
                return self.waiting.pop(0)
        self.shut.set()
        return None

    def put(self, *messages: str) -> None:
        with self.news:
            self.waiting += messages
            self.news.notify_all()

    def stop(self) -> None:
        with self.news:
            self.stopped = True
            self.news.notify_all()
        assert self.shut.wait(PATIENCE_S)

    def cleanup(self) -> None:
        assert not self.listening

    def wait_for(self, what: Callable[[], object]) -> None:
        with self.news:
            assert self.news.wait_for(what, PATIENCE_S)


class Handler:
    """Keeps each message until its gate is opened."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.threads: list[str] = []
        self.gates: dict[str, threading.Event] = {}

    def __call__(self, incoming: Any) -> None:
        (message,) = incoming
        with self._queue.news:
            gate = self.gates.setdefault(message, threading.Event())
            self.begun.append(message)
            self.threads.append(str(threading.get_ident()))
            self._queue.news.notify_all()
        assert gate.wait(PATIENCE_S)
        with self._queue.news:
            self.ended.append(message)
            self._queue.news.notify_all()

    def open(self, *messages: str) -> None:
        with self._queue.news:
            for message in messages:
                self.gates.setdefault(message, threading.Event()).set()


@pytest.fixture
def queue() -> Queue:
    return Queue()


@pytest.fixture
def handler(queue: Queue) -> Handler:
    return Handler(queue)


@pytest.fixture
def listener(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> leader_followers.Listener:
    """Of two threads, which do not pause after an error; the test starts it."""
    monkeypatch.setattr(leader_followers, "BEGIN_AGAIN_S", 0)
    return leader_followers.Listener(base.PollStyleListenerAdapter(queue, 1, None), 2, threading.Lock())


def test_another_listens_while_a_message_is_handled(
    queue: Queue, handler: Handler, listener: leader_followers.Listener
) -> None:
    """One thread listens at a time; a slow message does not keep the next one waiting."""
    listener.start(handler)
    queue.put("slow")
    queue.wait_for(lambda: handler.begun == ["slow"] and queue.listening)
    queue.put("quick")
    handler.open("quick")
    queue.wait_for(lambda: handler.ended == ["quick"])
    handler.open("slow")
    queue.wait_for(lambda: handler.ended == ["quick", "slow"])
    listener.stop()
    listener.cleanup()
    assert 1 == queue.most_listening


def test_a_message_is_taken_only_when_a_thread_is_free(
    queue: Queue, handler: Handler, listener: leader_followers.Listener
) -> None:
    """Of a backlog, the third message stays where others can take it while two threads are busy."""
    listener.start(handler)
    queue.put("1", "2", "3")
    queue.wait_for(lambda: set(handler.begun) == {"1", "2"})
    assert ["3"] == queue.waiting
    assert not queue.listening
    handler.open("1")
    queue.wait_for(lambda: set(handler.begun) == {"1", "2", "3"})
    handler.open("2", "3")
    listener.stop()
    listener.cleanup()
    assert {"1", "2", "3"} == set(handler.ended)


def test_threads_are_started_when_they_are_needed(queue: Queue, handler: Handler) -> None:
    """Messages that arrive one after the other need two threads of the many allowed."""
    many = leader_followers.Listener(base.PollStyleListenerAdapter(queue, 1, None), 64, threading.Lock())
    many.start(handler)
    messages = [str(number) for number in range(20)]
    handler.open(*messages)
    for number, message in enumerate(messages, 1):
        queue.put(message)
        queue.wait_for(lambda: len(handler.ended) == number and queue.listening)  # noqa: B023  # waited for here
    many.stop()
    many.cleanup()
    assert messages == handler.ended
    assert len(set(handler.threads)) <= 3


def test_a_stop_does_not_wait_for_handlers(queue: Queue, handler: Handler, listener: leader_followers.Listener) -> None:
    """All threads are busy. The stop ends when no message comes any more; messages that arrived before are handled."""
    listener.start(handler)
    queue.put("1", "2")
    queue.wait_for(lambda: set(handler.begun) == {"1", "2"})
    queue.put("3", "4")
    listener.stop()
    assert [] == handler.ended
    handler.open("1", "2", "3", "4")
    listener.cleanup()
    assert {"1", "2", "3", "4"} == set(handler.ended)


def test_a_stop_ends_threads_that_have_nothing_to_do(
    queue: Queue, handler: Handler, listener: leader_followers.Listener
) -> None:
    listener.start(handler)
    handler.open("1")
    queue.put("1")
    queue.wait_for(lambda: handler.ended == ["1"] and queue.listening)
    listener.stop()
    listener.cleanup()
    assert [] == queue.waiting


@pytest.mark.parametrize("error", [OSError("disk on fire"), SystemExit("disk on fire")], ids=repr)
def test_a_thread_outlives_errors(
    error: BaseException,
    queue: Queue,
    listener: leader_followers.Listener,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of a handler, or in listening: they are logged, and the next message is handled."""
    polled, troubles = queue.poll, [OSError("no listening today")] * 3
    handled: list[str] = []

    def poll(**how: Any) -> object:
        if troubles:
            raise troubles.pop()
        return polled(**how)

    def broken(incoming: Any) -> None:
        with queue.news:
            handled.extend(incoming)
            queue.news.notify_all()
        raise error

    monkeypatch.setattr(queue, "poll", poll)
    listener.start(broken)
    messages = [str(number) for number in range(8)]
    for number, message in enumerate(messages, 1):
        queue.put(message)
        queue.wait_for(lambda: len(handled) == number and queue.listening)  # noqa: B023  # waited for here
    listener.stop()
    listener.cleanup()
    assert messages == handled
    assert 3 == caplog.text.count("OSError: no listening today")
    assert len(messages) == caplog.text.count(f"{type(error).__name__}: disk on fire")


def test_a_thread_that_cannot_be_started_loses_nothing(
    queue: Queue,
    handler: Handler,
    listener: leader_followers.Listener,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The thread that received the message handles it and then receives again."""
    listener.start(handler)
    queue.wait_for(lambda: queue.listening)

    def refused(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        handler.open("1", "2")
        queue.put("1")
        queue.wait_for(lambda: handler.ended == ["1"] and queue.listening)
    queue.put("2")
    queue.wait_for(lambda: handler.ended == ["1", "2"])
    listener.stop()
    listener.cleanup()
    assert "Messages wait until one is handled: can't start new thread" in caplog.text
