# SPDX-License-Identifier: Apache-2.0
"""The end of one instance on one host."""

from __future__ import annotations

import dataclasses
import logging
import threading

import pytest

from compute_agent.drivers.fake import FakeDriver
from compute_agent.node.claims import Resources
from compute_agent.work import termination
from fleet import states
from fleet.context import RequestContext
from fleet.objects import Instance
from tests import leftovers
from tests.unit.compute_agent import builders
from tests.worlds.one_host import OneHost, one_host


class Driver(FakeDriver):
    """Its destroys fail or hang, as the test wants, and then work."""

    failure: Exception | None = None
    gate: threading.Event | None = None

    def destroy(self, context: RequestContext, instance_uuid: str) -> None:
        if self.gate is not None:
            self.gate.wait()
        if self.failure is not None:
            raise self.failure
        super().destroy(context, instance_uuid)


def a_host_with_an_instance() -> tuple[OneHost, Driver, Instance]:
    conf = builders.a_conf(reserved_host_memory_mb=0)
    driver = Driver(conf)
    world = one_host(conf, driver)
    instance = world.conductor.place(builders.an_instance())
    world.build(instance)
    world.conductor.put(world.conductor.rows[instance.uuid], task_state=states.DELETING)
    return world, driver, instance


def terminate(world: OneHost, instance: Instance) -> None:
    termination.terminate(builders.a_context(), world.host, world.ledger, instance.uuid)


def test_a_termination_may_be_repeated() -> None:
    """The second order finds nothing to destroy and reports again: the first answer may be lost."""
    world, _driver, instance = a_host_with_an_instance()
    for _time in range(2):
        terminate(world, instance)
    assert states.DELETED == world.conductor.rows[instance.uuid].vm_state
    assert [] == world.driver.list_instance_uuids()
    assert Resources() == world.tracker.view().used
    assert 2 == world.conductor.calls.count("instance_destroyed")


def test_a_guest_that_could_not_be_cleaned_up_is_gone_when_its_destroy_has_ended() -> None:
    """Its driver may not list it yet: a spawn that hangs makes it later."""
    world, driver, instance = a_host_with_an_instance()
    world.host.orphan(instance.uuid)
    driver.destroy(builders.a_context(), instance.uuid)
    driver.failure = RuntimeError("the spawn still runs")
    terminate(world, instance)
    assert states.DELETING == world.conductor.rows[instance.uuid].task_state
    assert Resources(512, 10, 1) == world.tracker.view().used
    driver.failure = None
    terminate(world, instance)
    assert states.DELETED == world.conductor.rows[instance.uuid].vm_state


@pytest.mark.parametrize("hangs", [pytest.param(True, id="hangs"), pytest.param(False, id="fails")])
def test_a_driver_that_cannot_destroy_keeps_the_room(hangs: bool, caplog: pytest.LogCaptureFixture) -> None:
    """The row stays in deleting and the claim is kept, until a repeated order succeeds."""
    world, driver, instance = a_host_with_an_instance()
    gate = driver.gate = threading.Event() if hangs else None
    driver.failure = RuntimeError("locked")
    patient = world.host.policy
    if hangs:
        world.host.policy = dataclasses.replace(patient, driver_timeout_s=0.05)
    terminate(world, instance)
    assert states.DELETING == world.conductor.rows[instance.uuid].task_state
    assert Resources(512, 10, 1) == world.tracker.view().used
    why = "it has not ended after 0.05 s" if hangs else "locked"
    assert [f"Cannot destroy the guest; the conductor will send the order again: {why}"] == builders.lines(
        caplog, logging.WARNING
    )
    driver.gate, driver.failure, world.host.policy = None, None, patient
    if gate is not None:
        # Repeated orders leave no more threads in the driver.
        terminate(world, instance)
        assert builders.lines(caplog, logging.WARNING)[1].endswith("for this guest has not ended")
        gate.set()
        # The late destroy ends before the next one begins.
        leftovers.join("driver")
    terminate(world, instance)
    assert states.DELETED == world.conductor.rows[instance.uuid].vm_state
    assert Resources() == world.tracker.view().used
