# SPDX-License-Identifier: Apache-2.0
"""Questions to a driver, which are answered by the thread that receives orders."""

from __future__ import annotations

import dataclasses
import threading

import pytest

from compute_agent.drivers.fake import FakeDriver
from fleet import errors
from tests import leftovers
from tests.unit.compute_agent import builders
from tests.worlds.one_host import one_host


def test_a_driver_that_hangs_keeps_no_orders_waiting() -> None:
    """The first question waits a little, the next ones are refused at once, until the driver has answered."""
    conf = builders.a_conf(reserved_host_memory_mb=0)
    world, gate = one_host(conf, FakeDriver(conf)), threading.Event()
    patient = world.host.policy
    world.host.policy = dataclasses.replace(patient, driver_timeout_s=0.05)
    for why in ("it has not ended after 0.05 s", "it has not answered an earlier question"):
        with pytest.raises(errors.ServiceDown, match=f"its driver does not answer: {why}"):
            world.host.ask(builders.a_context(), gate.wait)
    gate.set()
    leftovers.join("driver")
    world.host.policy = patient
    assert 7 == world.host.ask(builders.a_context(), lambda: 7)


def test_what_a_driver_raises_is_the_answer() -> None:
    conf = builders.a_conf(reserved_host_memory_mb=0)
    world = one_host(conf, FakeDriver(conf))

    def fail() -> None:
        raise errors.NotFound(kind="Guest", name="none")

    for _time in range(2):
        with pytest.raises(errors.NotFound):
            world.host.ask(builders.a_context(), fail)


def test_a_machine_without_threads_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question that could not begin is no question that the driver owes an answer to."""
    conf = builders.a_conf(reserved_host_memory_mb=0)
    world = one_host(conf, FakeDriver(conf))

    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        for _time in range(2):
            with pytest.raises(errors.ServiceDown, match="cannot ask the driver: can't start new thread"):
                world.host.ask(builders.a_context(), lambda: 7)
    assert 7 == world.host.ask(builders.a_context(), lambda: 7)
