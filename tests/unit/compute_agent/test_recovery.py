# SPDX-License-Identifier: Apache-2.0
"""Tests of what an agent does after a crash."""

from __future__ import annotations

import dataclasses
import logging
import threading
from typing import Any

import oslo_messaging
import pytest

from compute_agent.drivers.base import SpawnFailed
from compute_agent.drivers.fake import FakeDriver
from compute_agent.drivers.guest_record import GuestRecord
from compute_agent.ledger import build_calls
from compute_agent.node.claims import Resources
from compute_agent.node.host import Undecided
from compute_agent.work import comparison, recovery
from fleet import errors, states
from fleet.agent.work_queues import WorkQueues
from fleet.objects import Image, Instance, fields
from fleet.rpc.rabbit.lean import wire
from tests import leftovers
from tests.unit.compute_agent import builders
from tests.unit.compute_agent.builders import HOST
from tests.worlds.one_host import OneHost, one_host

CLAIMED = {"host": HOST, "node": HOST, "claimed_memory_mb": 512, "claimed_disk_gb": 10, "claimed_vcpus": 1}


def recover(world: OneHost) -> None:
    recovery.recover(builders.a_context(), world.host, world.ledger)


def with_guest(world: OneHost, instance: Instance) -> None:
    world.driver.spawn(builders.a_context(), instance, Image())


@pytest.mark.parametrize(
    ("row", "guest", "guests_after", "row_after", "used_after"),
    [
        pytest.param(
            {"vm_state": "building", "task_state": "spawning"}, True, 0, ("building", "scheduling"), 0, id="mid-spawn"
        ),
        pytest.param(
            {"vm_state": "building", "task_state": "spawning"},
            False,
            0,
            ("building", "scheduling"),
            0,
            id="claimed, not yet spawned",
        ),
        pytest.param({"vm_state": "active", "task_state": "deleting"}, True, 0, ("deleted", None), 0, id="mid-delete"),
        pytest.param(
            {"vm_state": "active", "task_state": "deleting"}, False, 0, ("deleted", None), 0, id="deleted, not yet told"
        ),
        pytest.param({"vm_state": "active", "task_state": None}, True, 1, ("active", None), 512, id="active"),
        pytest.param(
            {"vm_state": "active", "task_state": None}, False, 0, ("active", None), 512, id="active, guest lost"
        ),
    ],
)
def test_recovery_of_a_row(
    row: dict[str, Any], guest: bool, guests_after: int, row_after: tuple[str, str | None], used_after: int
) -> None:
    """Ledger, driver and tracker agree afterwards, whatever the crash interrupted."""
    world = one_host()
    instance = world.conductor.put(builders.an_instance(**CLAIMED), **row)
    if guest:
        with_guest(world, instance)
    recover(world)
    after = world.conductor.rows[instance.uuid]
    assert guests_after == len(world.driver.list_instance_uuids())
    assert row_after == (after.vm_state, after.task_state)
    assert used_after == world.tracker.view().used.memory_mb


@pytest.mark.parametrize(
    "malformed", [{"claimed_numa_topology": {"cells": "all"}}, {"claimed_pci_devices": [{"address": None}]}]
)
def test_a_malformed_row_does_not_keep_its_host_from_beginning(
    malformed: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The instance is counted as far as its row can be read, and so are the others."""
    world = one_host()
    for values in (malformed, {}):
        world.conductor.put(builders.an_instance(**CLAIMED, **values), vm_state="active", task_state=None)
    recover(world)
    assert 2 * 512 == world.tracker.view().used.memory_mb
    (line,) = builders.lines(caplog, logging.ERROR)
    assert f"instance.{next(iter(malformed))}" in line


def test_a_host_begins_whose_instances_are_too_large_for_one_answer() -> None:
    """A project that fills the metadata of its instances on a host keeps no agent from beginning."""
    world, most = one_host(), build_calls._PART
    rows = [world.conductor.put(builders.an_instance(**CLAIMED), vm_state="active") for _number in range(2 * most + 1)]
    world.conductor.most_in_an_answer = most
    recover(world)
    assert {row.uuid for row in rows} == world.host.tracked()
    full = {name: '"' * 250 for name in map(str, range(32))}
    fields.require_small(full, "metadata")
    flavor = dataclasses.replace(rows[0].flavor, extra_specs=full)
    largest = dataclasses.replace(rows[0], flavor=flavor, image=Image(properties=full), metadata=full).to_wire()
    answers = [wire.reply_body("id", [largest] * number) for number in (most, 4 * most)]
    assert [False, True] == [b"is too large" in answer for answer in answers]


def test_a_build_in_mid_spawn_is_handed_back_with_its_step() -> None:
    """The attempt's failure is the agent's restart."""
    world = one_host()
    instance = world.conductor.put(builders.an_instance(**CLAIMED), vm_state="building", task_state="spawning")
    recover(world)
    told = world.conductor.rescheduled[instance.uuid]["failure"]
    assert ("agent-restart", "AgentRestarted") == (told["step"], told["code"])


def test_a_guest_whose_build_went_elsewhere_is_fenced() -> None:
    """A guest that this driver spawned for an attempt that the ledger no longer has here is destroyed."""
    world = one_host()
    with_guest(world, world.conductor.put(builders.an_instance(node=HOST), vm_state="active", host="host2"))
    recover(world)
    assert [] == world.driver.list_instance_uuids()


def test_an_alien_guest_is_left_alone_and_counted() -> None:
    """A guest without an attempt of ours is an orphan: never destroyed, and its memory is missing from the host."""

    class DriverWithAlien(FakeDriver):
        def get_per_instance_usage(self) -> dict[str, dict[str, Any]]:
            return {"alien": {"uuid": "alien", "memory_mb": 300}, **super().get_per_instance_usage()}

        def destroy(self, context: Any, instance_uuid: str) -> None:
            raise AssertionError(f"{instance_uuid} was destroyed")

    conf = builders.a_conf(reserved_host_memory_mb=0)
    world = one_host(conf, DriverWithAlien(conf))
    recover(world)
    world.reporter.report()
    assert Resources(memory_mb=300) == world.tracker.view().used
    assert 300 == world.conductor.reports[HOST, HOST].orphaned_memory_mb


@pytest.mark.parametrize(("task_state", "vm_state"), [("spawning", "building"), ("deleting", "active")])
def test_one_unanswered_call_does_not_stop_the_agent(task_state: str, vm_state: str) -> None:
    """A call for one instance times out; the other instances are recovered."""
    world = one_host()
    world.conductor.put(builders.an_instance(**CLAIMED), vm_state=vm_state, task_state=task_state)
    active = world.conductor.put(builders.an_instance(**CLAIMED), vm_state="active")
    for method in ("reschedule", "instance_destroyed"):
        world.conductor.script(method, oslo_messaging.MessagingTimeout("silence"), times=1000)
    recover(world)
    assert frozenset([active.uuid]) == world.tracker.view().instances


@pytest.mark.parametrize(
    "row", [("building", "spawning", HOST), ("active", "deleting", HOST), ("active", None, "host2")]
)
def test_one_instance_that_the_ledger_refuses_keeps_no_host_from_beginning(
    row: tuple[str, str | None, str], caplog: pytest.LogCaptureFixture
) -> None:
    """The others are recovered, and the next comparison tries it again."""
    world = one_host()
    vm_state, task_state, host = row
    broken = world.conductor.put(builders.an_instance(**CLAIMED), vm_state=vm_state, task_state=task_state, host=host)
    with_guest(world, broken)
    world.host.undecided[broken.uuid] = Undecided(1, HOST, ())
    active = world.conductor.put(builders.an_instance(**CLAIMED), vm_state="active")
    refused = errors.InvalidInput(field="failure.message", reason="has a character that no ledger takes")
    for method in ("reschedule", "instance_destroyed"):
        world.conductor.script(method, refused, times=1)
    recover(world)
    assert {active.uuid} <= world.tracker.view().instances
    assert f"Instance {broken.uuid} on {HOST} is not recovered" in caplog.text


def test_a_guest_that_cannot_be_destroyed_ends_its_build() -> None:
    """While it may still run here, no other host may spawn the instance."""

    class StubbornDriver(FakeDriver):
        def destroy(self, context: Any, instance_uuid: str) -> None:
            raise OSError("busy")

    conf = builders.a_conf(reserved_host_memory_mb=0)
    world = one_host(conf, StubbornDriver(conf))
    instance = world.conductor.put(builders.an_instance(**CLAIMED), vm_state="building", task_state="spawning")
    with_guest(world, instance)
    recover(world)
    assert {} == world.conductor.rescheduled
    assert states.ERROR == world.conductor.rows[instance.uuid].vm_state


@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"vm_state": "error", "task_state": None, "host": None}, id="its build has ended"),
        pytest.param({"vm_state": "building", "task_state": "spawning"}, id="the report of its end was lost"),
        pytest.param({"vm_state": "building", "task_state": "deleting"}, id="it is deleted"),
    ],
)
def test_an_orphan_that_the_driver_does_not_list_yet_is_destroyed_first(row: dict[str, Any]) -> None:
    """A spawn that hangs may make the guest later: until a destroy has ended, no other guest gets the room, and no other
    host gets the instance.
    """

    class HangingDriver(FakeDriver):
        destroyed = 0
        hangs = True

        def destroy(self, context: Any, instance_uuid: str) -> None:
            if self.hangs:
                raise OSError("the spawn still runs")
            self.destroyed += 1

    conf = builders.a_conf(reserved_host_memory_mb=0)
    driver = HangingDriver(conf)
    world = one_host(conf, driver)
    instance = world.conductor.put(builders.an_instance(**CLAIMED), vm_state="building", task_state="spawning")
    world.tracker.track(instance)
    world.host.orphan(instance.uuid)
    world.conductor.put(instance, **row)
    for _audit in range(2):
        recovery.settle(builders.a_context(), world.host, world.ledger, instance.uuid)
        assert (512, {}) == (world.tracker.view().used.memory_mb, world.conductor.rescheduled)
    driver.hangs = False
    recovery.settle(builders.a_context(), world.host, world.ledger, instance.uuid)
    assert (1, 0) == (driver.destroyed, world.tracker.view().used.memory_mb)


def test_guests_survive_their_agent_when_they_are_persisted(tmp_path: Any) -> None:
    """A new driver on the same directory finds the guests of the former one."""
    conf = builders.a_conf(fake={"persist": True}, instances_path=str(tmp_path))
    first, second = FakeDriver(conf), FakeDriver(conf)
    first.init_host(HOST)
    instance = builders.an_instance(node=HOST, attempt=3)
    first.spawn(builders.a_context(), instance, Image())
    second.init_host(HOST)
    assert {instance.uuid: GuestRecord.of(instance).usage()} == second.get_per_instance_usage()
    assert states.RUNNING == second.get_info(instance.uuid).state


COMPARED = [
    ("a guest of ours that the ledger has elsewhere", {"host": "h2"}, True, True, 0),
    ("a claim that the ledger has not", {"host": None}, True, False, 0),
    ("a guest of ours that nobody knows", None, False, True, 0),
    ("an instance that is only in the ledger", {"vm_state": "active", "task_state": None}, False, False, 512),
    ("a spawn that nobody is at", {"vm_state": "building", "task_state": "spawning"}, True, True, 0),
    ("no difference", {"vm_state": "active", "task_state": None}, True, True, 512),
]


@pytest.mark.parametrize(("what", "row", "held", "guest", "used"), COMPARED, ids=[case[0] for case in COMPARED])
def test_a_comparison_brings_host_and_ledger_together(
    what: str, row: dict[str, Any] | None, held: bool, guest: bool, used: int
) -> None:
    """Whatever was lost between them; a second comparison finds nothing more to do."""
    world = one_host()
    instance = builders.an_instance(**CLAIMED)
    if row is not None:
        world.conductor.put(instance, **{"vm_state": "active", "task_state": None, **row})
    if held:
        world.tracker.track(instance)
    if guest:
        with_guest(world, instance)
    world.compare()
    assert used == world.tracker.view().used.memory_mb
    assert (1 if used and guest else 0) == len(world.driver.list_instance_uuids())
    assert 0 == world.compare()


def test_a_live_migration_that_ended_before_its_guest_was_taken_in() -> None:
    """The conductor gave up waiting for this host. A comparison takes the guest in; a failure is tried again by the next."""
    world = one_host()
    instance = world.conductor.put(builders.an_instance(**CLAIMED), vm_state="active", task_state="migrating")
    world.driver.pre_live_migration(builders.a_context(), instance, "source")
    world.compare()
    assert (states.NOSTATE, True) == arriving(world, instance)
    world.conductor.put(instance, vm_state="active", task_state=None, power_state=states.RUNNING)
    take_in = world.driver.post_live_migration_at_destination
    world.driver.post_live_migration_at_destination = unreachable
    world.compare()
    assert (states.NOSTATE, True) == arriving(world, instance)
    world.driver.post_live_migration_at_destination = take_in
    world.compare()
    assert (states.RUNNING, False) == arriving(world, instance)
    assert 0 == world.compare()


def unreachable(*_arguments: Any) -> None:
    raise SpawnFailed("The hypervisor does not answer")


def arriving(world: OneHost, instance: Instance) -> tuple[int, bool]:
    """The guest's power state, and whether it is still to be taken in."""
    usage = world.driver.get_per_instance_usage()[instance.uuid]
    return world.driver.get_info(instance.uuid).state, usage.get("arriving", False)


RESIZED = {"vcpus": 2, "memory_mb": 1024, "disk_gb": 10}
SAME = {"vcpus": 1, "memory_mb": 512, "disk_gb": 10}


@pytest.mark.parametrize(
    ("vm_state", "task_state", "resized_to", "expected"),
    [
        pytest.param("active", None, SAME, ["forget_former_size"], id="it was confirmed"),
        pytest.param("active", None, RESIZED, ["finish_revert_migration"], id="it was reverted"),
        pytest.param("resized", None, SAME, [], id="it waits for a decision"),
        pytest.param("active", "resize_confirming", SAME, [], id="it is under way"),
    ],
)
def test_a_resize_on_one_host_that_ended_without_it(
    vm_state: str, task_state: str | None, resized_to: dict[str, int], expected: list[str]
) -> None:
    """Whether it was confirmed or reverted is seen by the row's flavor."""
    done: list[str] = []

    class Resized(FakeDriver):
        def get_per_instance_usage(self) -> dict[str, dict[str, Any]]:
            marks = {} if done else {"resized_to": resized_to}
            return {uuid: {**usage, **marks} for uuid, usage in super().get_per_instance_usage().items()}

        def forget_former_size(self, *_arguments: Any) -> None:
            done.append("forget_former_size")

        def finish_revert_migration(self, *_arguments: Any, **_more: Any) -> None:
            done.append("finish_revert_migration")

    conf = builders.a_conf()
    world = one_host(conf, Resized(conf))
    instance = builders.an_instance(**CLAIMED)
    world.conductor.put(instance, vm_state=vm_state, task_state=task_state, power_state=states.RUNNING)
    with_guest(world, instance)
    world.compare()
    world.compare()
    assert expected == done


def test_an_instance_that_is_being_worked_on_is_not_compared() -> None:
    """What is under way is not a difference: the work itself ends it."""
    world = one_host()
    instance = builders.an_instance(**CLAIMED)
    world.tracker.track(instance)
    executor = builders.ThreadExecutor()
    queues, gate = WorkQueues(executor, slots=0), threading.Event()
    queues.submit(instance.uuid, gate.wait)
    assert 0 == comparison.compare([(world.host, queues)], world.ledger)
    gate.set()
    executor.join()
    assert 512 == world.tracker.view().used.memory_mb


def test_guests_of_a_node_that_was_away_are_counted_again() -> None:
    """Host and ledger agree on the guest. The new tracker of the node would give its vcpus and its disk to another, and
    count its memory twice: as an orphan's, and in the ledger.
    """

    class TwoNodes(FakeDriver):
        away = False

        def get_available_nodes(self, refresh: bool = False) -> list[str]:
            return [HOST] if self.away else [HOST, "second"]

    conf = builders.a_conf(reserved_host_memory_mb=0)
    driver = TwoNodes(conf)
    world = one_host(conf, driver)
    guest = world.conductor.put(
        builders.an_instance(**{**CLAIMED, "node": "second"}), vm_state="active", power_state=states.RUNNING
    )
    with_guest(world, guest)
    recover(world)
    for driver.away in (True, False):
        world.reporter.report()
    assert Resources(512) == world.host.tracker("second").view().used
    world.compare()
    world.reporter.report()
    assert Resources(512, 10, 1) == world.host.tracker("second").view().used
    assert 0 == world.compare()


@pytest.mark.parametrize("hangs", [False, True])
def test_a_host_whose_driver_fails_does_not_keep_others_from_being_compared(
    hangs: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """One process may serve the hosts of many hypervisors."""
    goes_on = threading.Event()

    class SickDriver(FakeDriver):
        simulated = False

        def get_per_instance_usage(self) -> dict[str, dict[str, Any]]:
            if hangs:
                goes_on.wait()
            raise OSError("the hypervisor is away")

    conf = builders.a_conf(reserved_host_memory_mb=0)
    sick, world = one_host(conf, SickDriver(conf), audited=False), one_host()
    sick.host.name, sick.host.policy = "host0", dataclasses.replace(sick.host.policy, driver_timeout_s=0.05)
    with_guest(world, world.conductor.put(builders.an_instance(node=HOST), vm_state="active", host="host2"))
    executor = builders.ThreadExecutor()
    both = [(each, WorkQueues(executor, slots=0)) for each in (sick.host, world.host)]
    if not hangs:
        # A busy machine is no reason to count it as hanging.
        sick.host.policy = dataclasses.replace(sick.host.policy, driver_timeout_s=None)
    assert 1 == comparison.compare(both, world.ledger, guests=world.guests)
    executor.join()
    goes_on.set()
    assert [] == world.driver.list_instance_uuids()
    why = "Overrun: it has not ended after 0.05 s" if hangs else "OSError: the hypervisor is away"
    assert why in builders.lines(caplog, logging.WARNING)[0]
    leftovers.join("driver")


def test_a_comparison_without_an_answer_changes_nothing() -> None:
    """The conductor is away: the next audit tries again."""
    world = one_host()
    world.tracker.track(builders.an_instance(**CLAIMED))
    world.conductor.script("compare_instances", oslo_messaging.MessagingTimeout(), times=100)
    assert 0 == world.compare()
    assert 512 == world.tracker.view().used.memory_mb
