# SPDX-License-Identifier: Apache-2.0
"""An answer without a queue is tried again for a second, and then dropped and counted."""

from __future__ import annotations

import threading
from typing import Any
from unittest import mock

import oslo_messaging
import pytest
from oslo_messaging._drivers import amqpdriver

from fleet.rpc.rabbit import late_replies
from fleet.rpc.rabbit.late_replies import LateReplies
from fleet.telemetry import metrics

RETURNED = oslo_messaging.MessageUndeliverable(None, "", "reply_of_somebody", None)


class Time:
    """Moves when somebody pauses."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def time() -> Time:
    return Time()


def message(queue: str = "reply_of_somebody", cache: Any = None) -> Any:
    return mock.Mock(reply_q=queue, msg_id="m1", _obsolete_reply_queues=cache or amqpdriver.ObsoleteReplyQueuesCache())


def drops() -> float:
    return metrics.ANSWERS_DROPPED._value.get()


def run(late: LateReplies) -> None:
    """To the end of the thread, which is there only while an answer waits."""
    for thread in [each for each in threading.enumerate() if each.name == "late-answers"]:
        thread.join()
    assert not late._running


def test_a_queue_that_comes_back_gets_its_answer(time: Time) -> None:
    """As after a failover of the broker."""
    send = mock.Mock(side_effect=[RETURNED, RETURNED, None])
    before, late = drops(), LateReplies(time, time.pause)
    late.take(message(), send)
    run(late)
    assert (3, 0) == (send.call_count, drops() - before)
    assert late_replies.PATIENCE_S > time.now


@pytest.mark.parametrize("failure", [RETURNED, OSError("lost")], ids=["no queue", "no connection"])
def test_an_answer_is_dropped_in_the_end(time: Time, failure: Exception) -> None:
    """Within about a second; the next one to the same queue does not wait."""
    gone, send = message(), mock.Mock(side_effect=failure)
    before, late = drops(), LateReplies(time, time.pause)
    late.take(gone, send)
    run(late)
    assert (1, True) == (drops() - before, time.now <= late_replies.PATIENCE_S + late_replies.PAUSE_S)

    tries = send.call_count
    late.take(message(cache=gone._obsolete_reply_queues), send)
    run(late)
    assert (2, tries) == (drops() - before, send.call_count)


def test_answers_wait_side_by_side(time: Time) -> None:
    """Four hundred take no longer than one."""
    before, late = drops(), LateReplies(time, time.pause)
    with late._lock:
        late._running = True  # the thread begins when all are there
    for number in range(400):
        late.take(message(f"reply_{number}"), mock.Mock(side_effect=RETURNED))
    late._run()
    assert (400, True) == (drops() - before, time.now <= late_replies.PATIENCE_S + late_replies.PAUSE_S)


def test_there_is_a_bound(time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it nothing waits."""
    monkeypatch.setattr(late_replies, "MOST", 0)
    before = drops()
    LateReplies(time, time.pause).take(message(), mock.Mock())
    assert 1 == drops() - before
