# SPDX-License-Identifier: Apache-2.0
"""Tests of one attempt at one build, on the fake driver and a conductor in memory."""

from __future__ import annotations

import logging
import threading
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from compute_agent.drivers.fake import FakeDriver
from compute_agent.node.claims import Resources
from compute_agent.work.build import BuildOrder, failure_record
from fleet import errors, states
from fleet.context import RequestContext
from fleet.objects import Claim, Claimed, HostLimits, Image, Instance
from tests.unit.compute_agent import builders
from tests.unit.compute_agent.builders import HOST
from tests.worlds.one_host import OneHost, one_host

TIMEOUT = oslo_messaging.MessagingTimeout("nobody answered")


def placed(world: OneHost, **values: Any) -> Instance:
    return world.conductor.place(builders.an_instance(**values))


def assert_nothing_left(world: OneHost) -> None:
    assert [] == world.driver.list_instance_uuids()
    assert Resources() == world.tracker.view().used


class Driver(FakeDriver):
    """Runs ``during_spawn`` in the middle of a spawn; can be set to fail when it destroys."""

    during_spawn: Any = None
    destroy_fails = False

    def spawn(self, context: Any, instance: Instance, image_meta: Image) -> None:
        super().spawn(context, instance, image_meta)
        if self.during_spawn is not None:
            self.during_spawn(instance)

    def destroy(self, context: Any, instance_uuid: str) -> None:
        if self.destroy_fails:
            raise OSError("the disk is on fire")
        super().destroy(context, instance_uuid)


def a_host_that(during_spawn: Any = None, destroy_fails: bool = False) -> OneHost:
    conf = builders.a_conf(reserved_host_memory_mb=0)
    driver = Driver(conf)
    driver.during_spawn = during_spawn
    driver.destroy_fails = destroy_fails
    return one_host(conf, driver)


def fail_with(error: Exception) -> Any:
    def during_spawn(instance: Instance) -> None:
        raise error

    return during_spawn


def test_the_ledger_is_told_what_the_claim_was_tested_by() -> None:
    """It holds its own sum against that; what is not limited is left out."""
    world = a_host_that()
    instance = placed(world)
    world.build(instance, limits=HostLimits(memory_mb=4096.5, vcpu=16))
    assert {"memory_mb": 4096.5, "vcpu": 16} == world.conductor.limits[instance.uuid]


def test_a_build_ends_active() -> None:
    """Claimed here and in the ledger, spawned, and finished: one call each."""
    world = one_host()
    instance = placed(world)
    world.build(instance)
    row = world.conductor.rows[instance.uuid]
    assert (states.ACTIVE, None, HOST, HOST) == (row.vm_state, row.task_state, row.host, row.node)
    assert (512, 10, 1) == (row.claimed_memory_mb, row.claimed_disk_gb, row.claimed_vcpus)
    assert states.RUNNING == row.power_state
    assert ["claim_instance", "finish_build"] == world.conductor.calls
    assert Resources(512, 10, 1) == world.tracker.view().used
    assert [instance.uuid] == world.driver.list_instance_uuids()


def test_no_node_named_is_the_first_node() -> None:
    """An order without a node is built on the first one."""
    world = one_host()
    instance = placed(world)
    world.build(instance, node=None)
    assert HOST == world.conductor.rows[instance.uuid].node


def test_a_refused_claim_is_rescheduled_with_its_alternates() -> None:
    """A full host holds nothing and spawns nothing; the failure names the missing resource."""
    world = one_host()
    instance = placed(world)
    alternates = [{"host": "host2", "nodename": "host2", "limits": {}}]
    world.build(instance, limits=HostLimits(memory_mb=100), alternates=alternates)
    told = world.conductor.rescheduled[instance.uuid]
    assert "claim" == told["failure"]["step"]
    assert "ComputeResourcesUnavailable" == told["failure"]["code"]
    assert "Free memory 100.00 MB < requested 512 MB" in told["failure"]["message"]
    assert (alternates, HOST, HOST) == (told["alternates"], told["host"], told["node"])
    assert ["reschedule"] == world.conductor.calls
    assert_nothing_left(world)


def test_a_violated_group_policy_is_rescheduled() -> None:
    """The ledger's no about the group counts as a refused claim, and as no failure of the host."""
    world = one_host()
    world.conductor.violated_policy = "anti-affinity"
    instance = placed(world)
    world.build(instance)
    assert "GroupAffinityViolation" == world.conductor.rescheduled[instance.uuid]["failure"]["code"]
    assert 0 == world.tracker.failed_builds
    assert_nothing_left(world)


def test_an_unknown_node_is_rescheduled() -> None:
    """An order with an unknown node does not end the build: another host may take it."""
    world = one_host()
    instance = placed(world)
    world.build(instance, node="nowhere")
    assert "NotFound" == world.conductor.rescheduled[instance.uuid]["failure"]["code"]


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        pytest.param(RuntimeError("no more loop devices"), "RuntimeError", id="the driver breaks"),
        pytest.param(errors.Conflict(kind="Guest", name="x", reason="busy"), "Conflict", id="the driver refuses"),
    ],
)
def test_a_failed_spawn_is_cleaned_up_and_rescheduled(failure: Exception, code: str) -> None:
    """The guest is destroyed and the claim given back before the build goes on elsewhere."""
    world = a_host_that(during_spawn=fail_with(failure))
    instance = placed(world)
    world.build(instance)
    told = world.conductor.rescheduled[instance.uuid]["failure"]
    assert ("spawn", code) == (told["step"], told["code"])
    assert 1 == world.tracker.failed_builds
    assert_nothing_left(world)


def test_build_abort_ends_the_build() -> None:
    """After a driver's BuildAbort no other host is tried."""
    world = a_host_that(during_spawn=fail_with(errors.BuildAbort(instance_uuid="x", reason="the image is broken")))
    instance = placed(world)
    world.build(instance)
    assert "BuildAbort" == world.conductor.aborted[instance.uuid]["failure"]["code"]
    assert {} == world.conductor.rescheduled
    assert_nothing_left(world)


def test_a_failed_clean_up_ends_the_build() -> None:
    """While a half-made guest may live here no other host may spawn the instance."""
    world = a_host_that(during_spawn=fail_with(RuntimeError("spawn")), destroy_fails=True)
    instance = placed(world)
    world.build(instance)
    assert {} == world.conductor.rescheduled
    assert "clean-up on host1 failed" in world.conductor.aborted[instance.uuid]["failure"]["message"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"attempt": 2}, id="a later attempt"),
        pytest.param({"task_state": states.DELETING}, id="being deleted"),
        pytest.param({"vm_state": states.ACTIVE, "task_state": None, "host": "host2"}, id="active elsewhere"),
    ],
)
def test_a_late_order_is_dropped(change: dict[str, Any]) -> None:
    """The row has moved on before the claim: nothing is spawned, reported or left."""
    world = one_host()
    instance = placed(world)
    world.conductor.put(instance, **change)
    world.build(instance)
    assert ["claim_instance"] == world.conductor.calls
    assert_nothing_left(world)


def test_an_attempt_that_has_failed_here_is_not_spawned_again() -> None:
    """The report was lost, so the ledger would accept a second claim of a repeated order. The sweeper ends the attempt."""
    spawns: list[str] = []

    def fail(instance: Instance) -> None:
        spawns.append(instance.uuid)
        raise OSError("no")

    world = a_host_that(fail)
    world.conductor.script("reschedule", TIMEOUT, times=100)
    instance = placed(world)
    for _ in range(3):
        world.build(instance)
    assert [instance.uuid] == spawns
    world.build(instance, attempt=2)
    assert 1 == len(spawns), "an attempt that the ledger does not know is none"
    assert_nothing_left(world)


@pytest.mark.parametrize("rebuilt", [False, True])
def test_a_superseded_host_destroys_its_own_attempt_only(monkeypatch: pytest.MonkeyPatch, rebuilt: bool) -> None:
    """When the finish is refused, the new process of the host may have built the instance already."""
    world = a_host_that(lambda instance: world.conductor.incarnations.update({HOST: "another life"}))
    instance = placed(world)
    if rebuilt:
        monkeypatch.setattr(world.driver, "get_per_instance_usage", lambda: {instance.uuid: {"attempt": 2}})
    world.build(instance)
    assert ["claim_instance", "finish_build"] == world.conductor.calls
    assert ([instance.uuid] if rebuilt else []) == world.driver.list_instance_uuids()
    assert 1 == len(world.superseded)


def test_an_instance_deleted_while_it_spawns_is_destroyed() -> None:
    """The row has moved on before the finish: the new guest is destroyed."""
    world = a_host_that(lambda instance: world.conductor.put(instance, task_state=states.DELETING))
    world.build(placed(world))
    assert ["claim_instance", "finish_build", "get_host_instances"] == world.conductor.calls
    assert_nothing_left(world)


def test_a_rebuild_that_waits_for_the_end_of_a_build() -> None:
    """The ledger has the finish, and its answer was lost. The guest and what it holds stay."""
    then = {"vm_state": states.ACTIVE, "task_state": states.REBUILD_DISK, "attempt": 2}
    world = a_host_that(lambda instance: world.conductor.put(instance, **then))
    instance = placed(world)
    world.build(instance)
    assert [instance.uuid] == world.driver.list_instance_uuids()
    assert Resources() != world.tracker.view().used


def test_a_repeated_order_leaves_the_running_guest_alone() -> None:
    """The same order twice: the second finds the first one's claim and touches nothing."""
    world = one_host()
    instance = placed(world)
    world.build(instance)
    world.build(instance)
    assert [instance.uuid] == world.driver.list_instance_uuids()
    assert states.ACTIVE == world.conductor.rows[instance.uuid].vm_state
    assert {} == world.conductor.rescheduled


@pytest.mark.parametrize("done", [pytest.param(False, id="call lost"), pytest.param(True, id="answer lost")])
@pytest.mark.parametrize("method", ["claim_instance", "finish_build"])
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(TIMEOUT, id="timeout"),
        pytest.param(oslo_messaging.MessageDeliveryFailure("no broker"), id="broker down"),
        pytest.param(oslo_messaging.RemoteError("DBConnectionError", "gone"), id="conductor failed"),
    ],
)
def test_a_call_of_unknown_outcome_is_asked_again(method: str, done: bool, error: Exception) -> None:
    """A call that timed out is repeated, because it may have been executed."""
    world = one_host()
    world.conductor.script(method, error, times=3, done=done)
    instance = placed(world)
    world.build(instance)
    assert states.ACTIVE == world.conductor.rows[instance.uuid].vm_state
    assert 4 == world.conductor.calls.count(method)
    assert [instance.uuid] == world.driver.list_instance_uuids()


@pytest.mark.parametrize("done", [pytest.param(True, id="recorded"), pytest.param(False, id="not recorded")])
def test_a_claim_without_any_answer_is_held_until_the_ledger_is_compared(
    done: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is spawned, but the ledger may hold the room, so that this host does, too; the comparison settles it."""
    world = one_host()
    world.conductor.script("claim_instance", TIMEOUT, times=10, done=done)
    instance = placed(world)
    world.build(instance)
    assert "finish_build" not in world.conductor.calls
    assert any("Giving up this build" in line for line in builders.lines(caplog, logging.WARNING))
    assert Resources(512, 10, 1) == world.tracker.view().used

    assert 1 == world.compare()
    assert_nothing_left(world)
    assert instance.uuid in world.conductor.rescheduled
    assert 2 == world.conductor.rows[instance.uuid].attempt


def test_room_is_not_sold_while_its_claim_may_still_reach_the_ledger() -> None:
    """The abandoned claim waits in a queue. The end of the attempt is reported first, so the ledger refuses the claim."""
    world = one_host()
    world.conductor.script("claim_instance", TIMEOUT, times=10)
    instance = placed(world)
    world.build(instance)
    world.conductor.script("reschedule", TIMEOUT, times=100)
    world.compare()
    assert Resources(512, 10, 1) == world.tracker.view().used, "nobody has said that the attempt is over"
    world.conductor._script.clear()
    world.compare()
    assert_nothing_left(world)
    claim = Claim(instance.uuid, 1, HOST, HOST, builders.INCARNATION, Claimed(512, 10, 1), HostLimits())
    with pytest.raises(errors.StaleBuild):
        world.ledger.claim_instance(RequestContext(), claim)


class HungDriver(FakeDriver):
    """Its spawns end when ``gate`` opens; the test sets whether it can destroy a guest that is spawning."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.gate = threading.Event()
        self.destroys = True
        super().__init__(conf, pause=lambda seconds: self.gate.wait())

    def destroy(self, context: RequestContext, instance_uuid: str) -> None:
        if not self.destroys:
            raise RuntimeError("the hypervisor is locked")
        super().destroy(context, instance_uuid)


def a_hung_host() -> tuple[OneHost, HungDriver]:
    conf = builders.a_conf(fake={"spawn_delay": 1.0}, reserved_host_memory_mb=0)
    driver = HungDriver(conf)
    return one_host(conf, driver), driver


def test_a_spawn_that_hangs_ends_at_its_limit() -> None:
    """The driver confirms that nothing is left: the room is free again, and the build goes to another host."""
    world, driver = a_hung_host()
    instance = placed(world)
    world.build(instance, spawn_within_s=0.05)
    failure = world.conductor.rescheduled[instance.uuid]["failure"]
    assert ("spawn", "SpawnTimeout") == (failure["step"], failure["code"])
    assert 1 == world.tracker.failed_builds
    assert_nothing_left(world)
    driver.gate.set()


@pytest.mark.parametrize("limit_s", [1e11, 1e300])
def test_a_time_limit_may_be_longer_than_a_thread_can_wait(limit_s: float) -> None:
    """An operator may want none. The guest would be spawned all the same, and the build handed to another host."""
    world, driver = a_hung_host()
    instance = placed(world)
    soon = threading.Timer(0.05, driver.gate.set)
    soon.start()
    world.build(instance, spawn_within_s=limit_s)
    soon.join()
    assert states.ACTIVE == world.conductor.rows[instance.uuid].vm_state
    assert {} == world.conductor.rescheduled


def test_what_a_hung_spawn_may_hold_is_held_until_it_is_gone() -> None:
    """The driver cannot destroy it: no other host is tried, the room stays taken and is reported as an orphan's."""
    world, driver = a_hung_host()
    driver.destroys = False
    instance = placed(world)
    world.build(instance, spawn_within_s=0.05)
    assert "not rescheduling" in world.conductor.aborted[instance.uuid]["failure"]["message"]
    assert Resources(512, 10, 1) == world.tracker.view().used
    world.reporter.report()
    assert 512 == world.conductor.reports[HOST, HOST].orphaned_memory_mb
    assert Resources(512, 10, 1) == world.tracker.view().used

    world.compare()
    assert Resources(512, 10, 1) == world.tracker.view().used
    driver.destroys = True
    world.compare()
    assert_nothing_left(world)
    world.reporter.report()
    assert 0 == world.conductor.reports[HOST, HOST].orphaned_memory_mb
    driver.gate.set()


def test_an_order_whose_turn_comes_too_late_is_dropped() -> None:
    """The deadline of the order has passed, so the build may be elsewhere. The agent sends nothing."""
    world = one_host()
    order = builders.an_order(placed(world), claim_within_s=5.0)
    world.builder.run(builders.a_context(), order, arrived=world.builder.clock() - 6)
    assert [] == world.conductor.calls
    assert_nothing_left(world)


def test_finish_is_asked_for_as_long_as_it_takes() -> None:
    """A running guest is never destroyed because the conductor is silent, however long."""
    world = one_host()
    world.conductor.script("finish_build", TIMEOUT, times=500)
    instance = placed(world)
    world.build(instance)
    assert states.ACTIVE == world.conductor.rows[instance.uuid].vm_state


def test_a_superseded_host_stops_being_served() -> None:
    """Another process has registered the host. The claim is refused with its name, and nothing is spawned."""
    world = one_host()
    world.conductor.incarnations[HOST] = "another life"
    world.build(placed(world))
    assert ["Host host1 is served by another process now (started now as pid 1 on elsewhere)."] == world.superseded
    assert_nothing_left(world)


def test_a_reschedule_that_comes_too_late_is_fine() -> None:
    """The sweeper may have moved the build on already."""
    world = one_host()
    instance = placed(world)
    world.conductor.put(instance, attempt=2)
    world.build(instance, limits=HostLimits(memory_mb=1))
    assert {} == world.conductor.rescheduled


def test_failure_record_is_a_sentence_of_bounded_length() -> None:
    """No traceback and no transport noise reaches a user."""
    assert "d\\udce9\\x00" == failure_record("spawn", OSError("d\udce9\0"), 1.0)["message"], "a ledger refuses these"
    record = failure_record("spawn", RuntimeError("x" * 1000), 1.23456)
    assert {"step": "spawn", "code": "RuntimeError", "message": "x" * 255, "duration_s": 1.235} == record


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"attempt": 0}, "build.attempt", id="no attempt"),
        pytest.param({"instance": {"uuid": "../../etc", "flavor": {}}}, "build.instance.uuid", id="not a uuid"),
        pytest.param({"limits": {"vcpu": "many"}}, "build.limits.vcpu", id="a limit that is no number"),
        pytest.param({"node": "a\nb"}, "build.node", id="a newline in a name"),
    ],
)
def test_a_malformed_order_names_the_field(changes: dict[str, Any], field: str) -> None:
    """An order is parsed once, at the edge."""
    wire = {"instance": builders.an_instance().to_wire(), "attempt": 1, **changes}
    with pytest.raises(errors.InvalidInput) as invalid:
        BuildOrder.from_wire(wire)
    assert field == invalid.value.field
