# SPDX-License-Identifier: Apache-2.0
"""Connections to a broker that refuses are retried with growing pauses, and logged once a minute."""

from __future__ import annotations

import logging
import random
from typing import Any

import amqp
import pytest

from fleet.rpc import backoff
from fleet.rpc.rabbit import broker_refusals
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
