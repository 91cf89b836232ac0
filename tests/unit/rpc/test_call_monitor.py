# SPDX-License-Identifier: Apache-2.0
"""Callers with a call monitor get signs of life until their calls are answered."""

from __future__ import annotations

import types
from collections.abc import Iterator
from unittest import mock

import pytest

from fleet.rpc.call_monitor import CallMonitor


@pytest.fixture(autouse=True)
def no_thread() -> Iterator[None]:
    """The tests call the monitor themselves."""
    with mock.patch.object(CallMonitor, "_run"):
        yield


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def incoming(patience_s: object, **heartbeat: object) -> types.SimpleNamespace:
    return types.SimpleNamespace(client_timeout=patience_s, heartbeat=mock.Mock(**heartbeat))


@pytest.mark.parametrize(
    ("name", "patience_s", "expected"),
    [
        ("twice in its patience", 4, [2, 4, 6]),
        ("whole seconds only", "5", [2.5, 5]),
        ("none wanted", None, []),
        ("too little to wait for", 1, []),
        ("not understood", "soon", []),
    ],
)
def test_signs_of_life(name: str, patience_s: object, expected: list[float]) -> None:
    """Sent while the call lasts, every half of the caller's timeout."""
    clock = Clock()
    monitor, call, told = CallMonitor(clock), incoming(patience_s), []
    with monitor.watching(call):
        for half_seconds in range(13):
            clock.now = half_seconds / 2
            before = call.heartbeat.call_count
            monitor.send_due()
            told += [clock.now] * (call.heartbeat.call_count - before)
    clock.now = 100.0
    monitor.send_due()
    assert expected == told, name


def test_one_that_cannot_be_told_does_not_stop_the_others() -> None:
    """The first caller has gone; the second gets its sign of life."""
    clock = Clock()
    monitor, gone, there = CallMonitor(clock), incoming(2, side_effect=OSError), incoming(2)
    with monitor.watching(gone), monitor.watching(there):
        clock.now = 1.0
        monitor.send_due()
    assert 1 == there.heartbeat.call_count


def test_a_failed_call_is_over() -> None:
    """However the work on it ends."""
    clock = Clock()
    monitor, call = CallMonitor(clock), incoming(2)
    with pytest.raises(OSError), monitor.watching(call):
        raise OSError
    clock.now = 1.0
    monitor.send_due()
    assert not call.heartbeat.called
