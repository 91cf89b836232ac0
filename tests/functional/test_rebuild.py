# SPDX-License-Identifier: Apache-2.0
"""Rebuilds in the ledger: a task that ends by its host's report or its deadline, with a new image and what else changes."""

from __future__ import annotations

from typing import Any

import oslo_messaging
import pytest

from conductor_stub.power import rebuild
from conductor_stub.power.machine import PowerReport
from conductor_stub.steps.limits import StepContext
from fleet import errors, states
from fleet.db.tables import models
from fleet.db.upkeep import retention
from fleet.objects import BootData, RebuildRequest, RequestSpec
from tests import factories
from tests.worlds.conductor import Conductor, context

OFF, ON, GONE = states.SHUTDOWN, states.RUNNING, states.NOSTATE
TASK = states.REBUILD_DISK


@pytest.fixture
def uuid(conductor: Conductor) -> str:
    image = {"name": "new", "location": "/new.raw", "properties": {"os_type": "linux", "a": "b"}}
    conductor.operator.create_image(image)
    uuid = conductor.place("h1", name="web", metadata={"role": "db"})
    conductor.claim(uuid, "h1")
    conductor.finish(uuid, "h1")
    return uuid


def report(conductor: Conductor, uuid: str, power: int, failure: str = "") -> bool:
    return conductor.agents.power_done(context(), PowerReport(uuid, "h1", TASK, power, failure))


def set_state(conductor: Conductor, uuid: str, **values: Any) -> None:
    conductor.database.write(lambda tx: tx.update(models.instances, uuid, values))


def shown(conductor: Conductor, uuid: str) -> dict[str, Any]:
    return conductor.operator.show_instance(uuid)["instance"]


def test_a_guest_is_made_anew(conductor: Conductor, uuid: str) -> None:
    """On its host, with the resources that it has; the row has the new image from the acceptance on."""
    used, before = conductor.memory_used("h1"), shown(conductor, uuid)
    assert TASK == conductor.operator.rebuild_instance(uuid, {"image": "new"})["task_state"]
    assert [("h1", uuid)] == conductor.compute.power
    (found,) = conductor.agents.host_instances("h1", [uuid])
    assert ("new", {"os_type": "linux", "a": "b"}) == (found.image.name, found.image.properties)
    assert report(conductor, uuid, ON)
    after = shown(conductor, uuid)
    assert ("active", None, ON, "h1", used) == (
        *(after[name] for name in ("vm_state", "task_state", "power_state", "host")),
        conductor.memory_used("h1"),
    )
    same = ("name", "metadata", "flavor", "created_at", "claimed_memory_mb")
    assert {name: before[name] for name in same} == {name: after[name] for name in same}
    assert before["attempt"] + 1 == after["attempt"]
    assert ("rebuild", "success") == tuple(conductor.events(uuid)[-1][name] for name in ("event", "result"))


@pytest.mark.parametrize(
    ("state", "power", "then"),
    [("active", ON, "active"), ("stopped", OFF, "stopped"), ("error", GONE, "active")],
)
def test_the_state_afterwards(conductor: Conductor, uuid: str, state: str, power: int, then: str) -> None:
    """One that was stopped is stopped; one in ERROR is well again."""
    set_state(conductor, uuid, vm_state=state, power_state=power)
    conductor.operator.rebuild_instance(uuid, {})
    assert report(conductor, uuid, OFF if then == "stopped" else ON)
    assert (then, None) == conductor.state(uuid)[:2]


def test_what_changes_with_it(conductor: Conductor, uuid: str) -> None:
    """Name, description, metadata, tags and addresses; key, user data and password for the host alone."""
    conductor.operator.create_key_pair({"name": "mine", "public_key": factories.PUBLIC_KEY})
    changes = {"name": "db", "description": "new", "metadata": {"x": "y"}, "replace_metadata": True, "tags": ["t"]}
    more = {"key_name": "mine", "user_data": "c2VjcmV0", "admin_password": "secret"}
    conductor.operator.rebuild_instance(uuid, {"changes": changes, **more})
    found = shown(conductor, uuid)
    assert ("db", "new", {"x": "y"}, ["t"], "mine") == tuple(
        found[name] for name in ("name", "description", "metadata", "tags", "key_name")
    )
    wanted = BootData("mine", factories.PUBLIC_KEY, "c2VjcmV0", "secret", "web")
    assert wanted == conductor.agents.boot_data(uuid, "h1")
    report(conductor, uuid, ON)
    conductor.operator.rebuild_instance(uuid, {"key_name": "", "user_data": ""})
    assert BootData(admin_password="secret", hostname="web") == conductor.agents.boot_data(uuid, "h1")
    assert shown(conductor, uuid)["key_name"] is None


def test_a_rebuild_alone_keeps_what_the_request_named(conductor: Conductor, uuid: str) -> None:
    """Also the others of its request keep theirs."""
    first, second = conductor.create(count=2, name="many", user_data="c2VjcmV0")
    for each in (first, second):
        set_state(conductor, each, vm_state="active", task_state=None, host="h1", node="h1")
    conductor.operator.rebuild_instance(first, {"admin_password": "secret"})
    data = [conductor.agents.boot_data(each, "h1") for each in (first, second)]
    assert [("c2VjcmV0", "secret"), ("c2VjcmV0", "")] == [(each.user_data, each.admin_password) for each in data]


def test_a_repeated_request_is_one_task(conductor: Conductor, uuid: str) -> None:
    """Another request meanwhile is refused; so is a second report."""
    for _twice in range(2):
        assert TASK == conductor.operator.rebuild_instance(uuid, {"image": "new"})["task_state"]
    with pytest.raises(errors.Conflict, match="wait until its task has ended"):
        conductor.operator.rebuild_instance(uuid, {"changes": {"name": "other"}})
    assert [True, False] == [report(conductor, uuid, ON) for _twice in range(2)]
    assert 1 == [each["event"] for each in conductor.events(uuid)].count("rebuild")


@pytest.mark.parametrize("other", [{"admin_password": "other"}, {"user_data": "b3RoZXI="}, {"key_name": "mine"}])
def test_a_repeated_request_with_other_data_is_refused(conductor: Conductor, uuid: str, other: dict[str, str]) -> None:
    """They would never be used. The same data are no other request."""
    conductor.operator.create_key_pair({"name": "mine", "public_key": factories.PUBLIC_KEY})
    asked = {"admin_password": "secret", "user_data": "c2VjcmV0"}
    for _twice in range(2):
        assert TASK == conductor.operator.rebuild_instance(uuid, asked)["task_state"]
    with pytest.raises(errors.Conflict, match="wait until its task has ended"):
        conductor.operator.rebuild_instance(uuid, {**asked, **other})
    kept = conductor.agents.boot_data(uuid, "h1")
    assert ("secret", "c2VjcmV0", "") == (kept.admin_password, kept.user_data, kept.key_name)


@pytest.mark.parametrize("image", ["new", None])
@pytest.mark.parametrize(
    "moved", [{"host": "h2", "node": "h2"}, {"resized_spec": {"flavor": {"vcpus": 2, "memory_mb": 1024, "root_gb": 1}}}]
)
def test_an_instance_that_changes_while_its_image_is_judged(
    conductor: Conductor, uuid: str, moved: dict[str, Any], image: str | None
) -> None:
    """The filters have judged the image for another host or other sizes. Without a new image nothing was judged."""
    conductor.add_host("h2")
    request = RebuildRequest.from_wire({"image": image} if image else {})
    planned = conductor.database.read(rebuild.plan, context(), uuid, request, {})
    set_state(conductor, uuid, **moved)
    ctx = StepContext(conductor.limits, conductor.clock(), "req-1")
    if image is None:
        assert TASK == conductor.database.write(rebuild.accept, uuid, planned, ctx).task_state
        return
    with pytest.raises(errors.Conflict, match="has changed meanwhile"):
        conductor.database.write(rebuild.accept, uuid, planned, ctx)
    assert ("active", None) == conductor.state(uuid)[:2]


def test_plans_about_a_guest_that_was_rebuilt_often(conductor: Conductor, uuid: str) -> None:
    """Rebuilds count no attempts: a plan has the request of a first attempt, which each scheduler takes."""
    for _ in range(3):
        conductor.operator.rebuild_instance(uuid, {})
        report(conductor, uuid, ON)
        (planned,) = conductor.operator.requests_of([uuid])
        for asked in (planned, conductor.operator.request_of(uuid)):
            assert {"num_attempts": 1, "hosts": []} == asked["filter_properties"]["retry"]
            assert 1 == RequestSpec.from_wire(asked["request_spec"], asked["filter_properties"]).num_instances


def test_a_late_report_does_not_end_the_next_rebuild(conductor: Conductor, uuid: str) -> None:
    """Each report names the attempt that its host has read."""
    conductor.operator.rebuild_instance(uuid, {})
    (first,) = conductor.agents.host_instances("h1", [uuid])
    report(conductor, uuid, GONE, "it took too long")
    conductor.operator.rebuild_instance(uuid, {})
    for number, counts in ((first.attempt, False), (first.attempt + 1, True)):
        late = PowerReport(uuid, "h1", TASK, GONE, "it is late", number)
        assert counts == conductor.agents.power_done(context(), late)


def test_a_failure_ends_in_error(conductor: Conductor, uuid: str) -> None:
    """On its host, with its resources and a fault; another rebuild may be asked for."""
    used = conductor.memory_used("h1")
    conductor.operator.rebuild_instance(uuid, {"image": "new"})
    assert report(conductor, uuid, GONE, "the image is gone")
    assert ("error", None, 2, "h1") == conductor.state(uuid)
    (fault,) = conductor.faults(uuid)
    assert "The rebuild on host h1 failed: the image is gone" == fault["message"]
    assert used == conductor.memory_used("h1")
    conductor.operator.rebuild_instance(uuid, {})
    report(conductor, uuid, ON)
    assert ("active", None) == conductor.state(uuid)[:2]


def test_a_lost_order_is_sent_again_until_the_deadline(conductor: Conductor, uuid: str) -> None:
    """It has the time of a build; after it the instance is in ERROR, and a late report changes nothing."""
    conductor.compute.without_queue.add("h1")
    conductor.operator.rebuild_instance(uuid, {})
    conductor.compute.without_queue.clear()
    conductor.clock.advance(conductor.limits.placing_timeout_s)
    assert 1 == conductor.power_sweeper.sweep()
    assert [("h1", uuid)] == conductor.compute.power
    conductor.clock.advance(conductor.limits.build_timeout_s - conductor.limits.placing_timeout_s - 1)
    assert 1 == conductor.power_sweeper.sweep()
    assert TASK == conductor.state(uuid)[1]
    conductor.clock.advance(1)
    assert 1 == conductor.power_sweeper.sweep()
    assert ("error", None) == conductor.state(uuid)[:2]
    (fault,) = conductor.faults(uuid)
    assert f"Host h1 did not end {TASK} within 600 s." == fault["message"]
    assert not report(conductor, uuid, ON)


@pytest.mark.parametrize("state", ["active", "stopped"])
def test_a_rebuild_whose_host_is_off_for_certain(conductor: Conductor, uuid: str, state: str) -> None:
    """The disk is lost with the host, and made anew elsewhere. A guest that was stopped is not started by that."""
    set_state(conductor, uuid, vm_state=state)
    conductor.operator.rebuild_instance(uuid, {})
    conductor.operator.force_down("h1", True)
    conductor.clock.advance(conductor.limits.placing_timeout_s)
    assert 1 == conductor.power_sweeper.sweep()
    assert (state, None) == conductor.state(uuid)[:2]


def test_an_overdue_rebuild_of_one_in_error(conductor: Conductor, uuid: str) -> None:
    """The sweeper finds it, too."""
    set_state(conductor, uuid, vm_state="error")
    conductor.operator.rebuild_instance(uuid, {})
    conductor.clock.advance(conductor.limits.build_timeout_s)
    assert 1 == conductor.power_sweeper.sweep()
    assert ("error", None) == conductor.state(uuid)[:2]


def test_other_sweepers_leave_rebuilds_alone(conductor: Conductor, uuid: str) -> None:
    conductor.operator.rebuild_instance(uuid, {})
    conductor.clock.advance(conductor.limits.placing_timeout_s)
    assert (0, 0) == (conductor.sweeper.sweep(), conductor.move_sweeper.sweep())
    with pytest.raises(errors.Conflict, match="wait until it has ended"):
        conductor.operator.reset_state(uuid, "active")


def test_a_deletion_ends_a_rebuild(conductor: Conductor, uuid: str) -> None:
    """What the guest would have found goes with the row, and is in no export."""
    conductor.operator.rebuild_instance(uuid, {"admin_password": "secret"})
    conductor.termination.terminate(context(), [uuid])
    assert not report(conductor, uuid, ON)
    conductor.agents.destroyed(context(), uuid, "h1")
    assert "deleted" == conductor.state(uuid)[0]
    assert "secret" not in repr(conductor.database.read(retention.read, [uuid]))
    conductor.database.write(retention.remove, [uuid])
    assert [] == conductor.database.read(lambda tx: tx.execute(models.rebuilt_boot_data.select()).all())


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"vm_state": "suspended", "power_state": OFF}, "it must be on a host, and ACTIVE, STOPPED or ERROR"),
        ({"vm_state": "resized"}, "it must be on a host"),
        ({"vm_state": "error", "host": None, "node": None}, "it must be on a host"),
        ({"task_state": "resize_prep"}, "wait until its task has ended"),
        ({"task_state": "deleting"}, "wait until its task has ended"),
    ],
)
def test_what_cannot_be_rebuilt(conductor: Conductor, uuid: str, values: dict[str, Any], reason: str) -> None:
    set_state(conductor, uuid, **values)
    with pytest.raises(errors.Conflict, match=reason):
        conductor.operator.rebuild_instance(uuid, {})
    assert [] == conductor.compute.power


def test_the_host_must_be_up(conductor: Conductor, uuid: str) -> None:
    conductor.clock.advance(conductor.limits.service_down_time_s + 1)
    with pytest.raises(errors.Conflict, match="on a host whose fleet-compute is down"):
        conductor.operator.rebuild_instance(uuid, {})


@pytest.mark.parametrize(
    ("image", "field"),
    [
        ({"min_ram": 2048}, "memory_mb"),
        ({"min_disk": 11}, "root_gb"),
        ({"size": 11 * 2**30}, "root_gb"),
        ({"properties": {"hw_numa_nodes": 1}}, "request.image"),
    ],
)
def test_an_image_that_does_not_fit(conductor: Conductor, uuid: str, image: dict[str, Any], field: str) -> None:
    """As at a boot; nor may it need other cells or devices than the instance has claimed."""
    conductor.operator.create_image({"name": "large", "location": "/large.raw", **image})
    with pytest.raises(errors.InvalidInput, match=field):
        conductor.operator.rebuild_instance(uuid, {"image": "large"})


def test_the_filters_judge_a_new_image(conductor: Conductor, uuid: str) -> None:
    """On the host of the instance, as if it were not there. No host is named to the caller; the same image is not judged."""
    conductor.scheduler.refusing = "IsolatedHostsFilter"
    with pytest.raises(errors.InvalidInput, match="IsolatedHostsFilter refuses it there") as refused:
        conductor.operator.rebuild_instance(uuid, {"image": "new"})
    assert "h1" not in refused.value.message
    ((spec, properties),) = conductor.scheduler.explained
    assert ("new", uuid, "h1") == (spec["image"]["name"], spec["holding"]["instance_uuid"], spec["holding"]["host"])
    assert ({"host": "h1"}, {}) == (properties["requested_destination"], properties["scheduler_hints"])
    assert "active" == conductor.state(uuid)[0]
    conductor.operator.rebuild_instance(uuid, {})
    assert 1 == len(conductor.scheduler.explained)


def test_a_scheduler_that_cannot_judge(conductor: Conductor, uuid: str) -> None:
    """A driver without filters keeps no image from a host."""
    conductor.scheduler.failure = errors.NotSupported(what="explain", driver="ChanceScheduler")
    assert TASK == conductor.operator.rebuild_instance(uuid, {"image": "new"})["task_state"]


@pytest.mark.parametrize(
    "silence",
    [oslo_messaging.MessagingTimeout("late"), oslo_messaging.RemoteError("KeyError", "a plugin has failed")],
    ids=["late", "failed"],
)
def test_no_scheduler_judges_the_new_image(conductor: Conductor, uuid: str, silence: Exception) -> None:
    """The caller gets 503, and the guest stays as it is. The image that it has needs no scheduler."""
    conductor.scheduler.failure = silence
    with pytest.raises(errors.ServiceDown, match="fleet-scheduler.*nothing was changed") as refused:
        conductor.operator.rebuild_instance(uuid, {"image": "new"})
    assert 503 == refused.value.code
    assert ("active", None) == conductor.state(uuid)[:2]
    assert TASK == conductor.operator.rebuild_instance(uuid, {})["task_state"]


@pytest.mark.parametrize(
    "request_",
    [
        {"image": "unknown"},
        {"key_name": "unknown"},
    ],
)
def test_what_is_not_there(conductor: Conductor, uuid: str, request_: dict[str, Any]) -> None:
    with pytest.raises(errors.NotFound, match="unknown"):
        conductor.operator.rebuild_instance(uuid, request_)
    assert "active" == conductor.state(uuid)[0]


def test_a_request_with_a_key_that_is_unknown(conductor: Conductor, uuid: str) -> None:
    with pytest.raises(errors.InvalidInput, match="request.flavor"):
        conductor.operator.rebuild_instance(uuid, {"flavor": "big"})
