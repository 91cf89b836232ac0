# SPDX-License-Identifier: Apache-2.0
"""A broker that refuses is asked again with growing pauses, and costs a line a minute."""

from __future__ import annotations

import logging
import random
import threading
from typing import Any
from unittest import mock

import amqp
import pytest
from oslo_messaging._drivers import common

from fleet.rpc import backoff
from fleet.rpc.rabbit import broker_refusals, driver, host_queues
from fleet.telemetry import rate_limited_log

REFUSED = amqp.exceptions.AccessRefused("Login was refused")


def test_pauses_grow_and_differ() -> None:
    """From half a second to half a minute, and from the first again after a success."""
    pauses = backoff.Backoff(1.0, 30.0, random.Random(1))
    found = [pauses.pause_s() for _number in range(8)]
    assert all(
        longest / 2 <= pause <= longest for pause, longest in zip(found, [1, 2, 4, 8, 16, 30, 30, 30], strict=True)
    )
    pauses.reset()
    assert pauses.pause_s() <= 1


def test_the_thread_for_answers_backs_off(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """oslo.messaging's loop takes it for a time without messages."""
    monkeypatch.setattr(broker_refusals, "_refused", rate_limited_log.RateLimit())
    ending, connection = mock.Mock(spec=threading.Event), mock.Mock()
    waiting = driver._BackOffConnection(connection, ending)
    connection.consume.side_effect = REFUSED
    for _try in range(10):
        with pytest.raises(common.Timeout):
            waiting.consume(timeout=1)
    pauses = [call.args[0] for call in ending.wait.call_args_list]
    assert (10, True) == (len(pauses), sum(pauses) > 60)
    assert 1 == len([line for line in caplog.messages if "answers cannot be received" in line])

    connection.consume.side_effect = None
    waiting.consume(timeout=1)
    connection.consume.side_effect = REFUSED
    with pytest.raises(common.Timeout):
        waiting.consume(timeout=1)
    assert ending.wait.call_args.args[0] <= 1


def test_what_the_library_says_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a traceback of a refusal; of anything else the traceback stays."""
    monkeypatch.setattr(broker_refusals, "_library_said", rate_limited_log.RateLimit())

    def record(message: str, failure: Exception) -> Any:
        said = (type(failure), failure, None)
        return logging.LogRecord("oslo", logging.ERROR, "", 1, message, (), said)  # type: ignore[arg-type]

    first, second, bug = record("refused", REFUSED), record("refused", REFUSED), record("bug", KeyError("x"))
    assert [True, False, True] == [broker_refusals._one_a_minute(each) for each in (first, second, bug)]
    assert (None, True) == (first.exc_info, "Login was refused" in first.getMessage())
    assert bug.exc_info


def test_the_queues_of_hosts_are_at_rest_between_refusals() -> None:
    """A second without messages is a success: the next refusal is a first one, and costs no half minute."""
    reader = host_queues._Connection.__new__(host_queues._Connection)
    refusals = [REFUSED] * 8
    connection = mock.Mock()
    connection.consume.side_effect = [*refusals, common.Timeout, REFUSED]
    closing = mock.Mock(spec=threading.Event)
    closing.is_set.side_effect = [False] * 10 + [True]
    reader._connection, reader._closing, reader._backoff = connection, closing, backoff.Backoff()
    reader._errand_or = lambda patience_s: patience_s  # type: ignore[method-assign]
    reader._run()
    pauses = [call.args[0] for call in closing.wait.call_args_list]
    assert (9, True, True) == (len(pauses), pauses[7] >= 15, pauses[8] <= 1)
