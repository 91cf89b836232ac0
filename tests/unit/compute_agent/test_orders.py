# SPDX-License-Identifier: Apache-2.0
"""An agent acts on the row, not on the message: what becomes of orders that the ledger does not want."""

from __future__ import annotations

import dataclasses
import logging

import oslo_messaging
import prometheus_client
import pytest

from compute_agent.work import orders
from compute_agent.work.termination import Termination
from fleet import states
from fleet.agent.work_queues import WorkQueues
from fleet.objects import Instance
from tests.unit.compute_agent import builders
from tests.worlds.one_host import OneHost, one_host


def dropped(order: str, reason: str) -> float:
    labels = {"order": order, "reason": reason}
    return prometheus_client.REGISTRY.get_sample_value("fleet_compute_orders_dropped_total", labels) or 0.0


def order_to_terminate(world: OneHost, uuid: str) -> None:
    executor = builders.ThreadExecutor()
    queues = WorkQueues(executor, slots=1)
    Termination(world.host, world.ledger, None, queues).order(builders.a_context(), uuid)
    assert queues.wait(60)
    executor.join()


def a_host_with_an_instance() -> tuple[OneHost, Instance]:
    world = one_host()
    instance = world.conductor.place(builders.an_instance())
    world.build(instance)
    return world, instance


def test_a_termination_that_the_row_wants_is_carried_out() -> None:
    world, instance = a_host_with_an_instance()
    world.conductor.put(world.conductor.rows[instance.uuid], task_state=states.DELETING)
    order_to_terminate(world, instance.uuid)
    assert states.DELETED == world.conductor.rows[instance.uuid].vm_state
    assert [] == world.driver.list_instance_uuids()


def test_a_termination_that_the_row_does_not_want_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """The guest runs on and the row stays; one warning names the instance and the reason, and a metric counts it."""
    world, instance = a_host_with_an_instance()
    before = dropped("terminate", "unwanted")
    order_to_terminate(world, instance.uuid)
    assert [instance.uuid] == world.driver.list_instance_uuids()
    assert states.ACTIVE == world.conductor.rows[instance.uuid].vm_state
    assert 1 == dropped("terminate", "unwanted") - before
    reason = f"Dropping a terminate order for instance {instance.uuid} on host1: its row is active/-, not deleting"
    assert [reason] == builders.lines(caplog, logging.WARNING)


def test_a_guest_that_the_ledger_has_elsewhere_is_left_to_the_comparison(caplog: pytest.LogCaptureFixture) -> None:
    world, instance = a_host_with_an_instance()
    world.conductor.put(world.conductor.rows[instance.uuid], host="host2", node="host2", task_state=states.DELETING)
    order_to_terminate(world, instance.uuid)
    assert [instance.uuid] == world.driver.list_instance_uuids()
    assert "the ledger does not have it on this host" in builders.lines(caplog, logging.WARNING)[0]


def test_a_repeated_termination_leaves_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The conductor repeats an order whose answer was lost. Nothing is left to do, and nothing is wrong."""
    world, instance = a_host_with_an_instance()
    world.conductor.put(world.conductor.rows[instance.uuid], task_state=states.DELETING)
    for _time in range(2):
        order_to_terminate(world, instance.uuid)
    assert [] == builders.lines(caplog, logging.WARNING)


def test_nothing_is_destroyed_while_no_conductor_answers(caplog: pytest.LogCaptureFixture) -> None:
    """The agent repeats its question until claim_timeout, and then drops the order; the sweeper repeats it."""
    world, instance = a_host_with_an_instance()
    before = dropped("terminate", "unconfirmed")
    world.conductor.put(world.conductor.rows[instance.uuid], task_state=states.DELETING)
    world.conductor.script("get_host_instances", oslo_messaging.MessagingTimeout("silence"), times=1000)
    order_to_terminate(world, instance.uuid)
    assert [instance.uuid] == world.driver.list_instance_uuids()
    assert 1 == dropped("terminate", "unconfirmed") - before
    assert world.conductor.calls.count("get_host_instances") > 3
    assert f"Not acting on a terminate order for instance {instance.uuid} on host1" in caplog.text


def test_an_unwanted_termination_does_not_cancel_a_build_that_waits() -> None:
    """A build is cancelled only after the ledger has confirmed the order."""
    world = one_host()
    instance = world.conductor.place(builders.an_instance())
    executor = builders.ThreadExecutor()
    queues = WorkQueues(executor, slots=1)
    termination = Termination(world.host, world.ledger, None, queues)

    def order_and_wait() -> None:
        """Takes the only slot until the order has been judged."""
        termination.order(builders.a_context(), instance.uuid)
        executor.started[-1].join()

    queues.submit(instance.uuid, lambda: world.build(instance), takes_slot=True)
    queues.submit("another", order_and_wait, takes_slot=True)
    assert queues.wait(60)
    executor.join()
    assert states.ACTIVE == world.conductor.rows[instance.uuid].vm_state


def test_a_build_order_that_describes_another_instance_is_handed_back(caplog: pytest.LogCaptureFixture) -> None:
    """The host has claimed by the order's flavor, and the ledger has another: nothing is spawned or held."""
    world = one_host()
    instance = world.conductor.place(builders.an_instance())
    before = dropped("build", "unwanted")
    world.build(dataclasses.replace(instance, flavor=builders.a_flavor(memory_mb=1)))
    assert [] == world.driver.list_instance_uuids()
    assert frozenset() == world.tracker.view().instances
    assert 1 == dropped("build", "unwanted") - before
    assert "OrderDiffers" == world.conductor.rescheduled[instance.uuid]["failure"]["code"]
    assert f"Dropping a build order for instance {instance.uuid} on host1" in builders.lines(caplog, logging.WARNING)[0]


def test_a_build_order_costs_no_message_besides_its_claim() -> None:
    world, _instance = a_host_with_an_instance()
    assert ["claim_instance", "finish_build"] == world.conductor.calls


@pytest.mark.parametrize("field", ["flavor", "numa_topology", "pci_requests"])
def test_all_that_decides_a_claim_is_compared(field: str) -> None:
    row = builders.an_instance()
    other = {"flavor": builders.a_flavor(vcpus=7), "numa_topology": {"cells": []}, "pci_requests": [{"count": 1}]}
    with pytest.raises(orders.OrderDiffers, match=field):
        orders.require_same(dataclasses.replace(row, **{field: other[field]}), row)
