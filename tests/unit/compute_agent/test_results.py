# SPDX-License-Identifier: Apache-2.0
"""What becomes of a build for everything that may go wrong on its host."""

from __future__ import annotations

from typing import Any

import pytest

from compute_agent.drivers.base import SpawnFailed
from compute_agent.drivers.fake import FakeDriver
from compute_agent.ledger.notifications import Notifications, payload
from fleet import errors, states
from fleet.objects import Flavor, HostLimits, Image, Instance
from tests.unit.compute_agent import builders
from tests.unit.compute_agent.builders import HOST, Notifier
from tests.worlds.one_host import one_host


class Driver(FakeDriver):
    """Its next spawn raises ``failure``."""

    failure: Exception | None = None

    def spawn(self, context: Any, instance: Instance, image_meta: Image) -> None:
        super().spawn(context, instance, image_meta)
        if self.failure is not None:
            raise self.failure


STALE = errors.StaleBuild(instance_uuid="u", attempt=1, reason="deleting")
GONE = errors.NotFound(kind="Instance", name="u")
VIOLATION = errors.GroupAffinityViolation(instance_uuid="u", host=HOST, policy="anti-affinity", group_uuid="g")
FULL = errors.ComputeResourcesUnavailable(reason="As the ledger counts: 1 MB of memory may be used, 2 would be")
ABORT = errors.BuildAbort(instance_uuid="u", reason="the image is broken")
END, ERROR = ("INFO", "compute.instance.create.end"), ("ERROR", "compute.instance.create.error")

#: what, where it happens, what is raised, what the ledger is told, its code, the notification, failed builds
RESULTS: list[tuple[str, str, Exception | None, str, str, tuple[str, str], int]] = [
    ("nothing goes wrong", "", None, "finished", "", END, 0),
    ("the claim is refused", "full", None, "rescheduled", "ComputeResourcesUnavailable", ERROR, 0),
    ("the node is unknown", "node", None, "rescheduled", "NotFound", ERROR, 0),
    ("the group forbids it", "claim_instance", VIOLATION, "rescheduled", "GroupAffinityViolation", ERROR, 0),
    ("the ledger counts more than the host", "claim_instance", FULL, "rescheduled", "ComputeResourcesUnavailable",
     ERROR, 0),
    ("deleted before the claim", "claim_instance", GONE, "", "", END, 0),
    ("moved on before the claim", "claim_instance", STALE, "", "", END, 0),
    ("the driver says what failed", "spawn", SpawnFailed("no disk"), "rescheduled", "SpawnFailed", ERROR, 1),
    ("the driver has a bug", "spawn", RuntimeError("oops"), "rescheduled", "RuntimeError", ERROR, 1),
    ("the driver is short of something", "spawn", errors.ComputeResourcesUnavailable(reason="hugepages"), "rescheduled",
     "ComputeResourcesUnavailable", ERROR, 1),
    ("no host can build it", "spawn", ABORT, "aborted", "BuildAbort", ERROR, 1),
    ("deleted during the spawn", "finish_build", GONE, "", "", END, 0),
    ("moved on during the spawn", "finish_build", STALE, "", "", END, 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "where", "raised", "told", "code", "last", "counted"), RESULTS, ids=[case[0] for case in RESULTS]
)
def test_result(
    what: str, where: str, raised: Exception | None, told: str, code: str, last: tuple[str, str], counted: int
) -> None:
    """The ledger gets one report and the notifications one event; only an active instance keeps resources."""
    conf, notifier = builders.a_conf(reserved_host_memory_mb=0), Notifier()
    driver = Driver(conf)
    world = one_host(conf, driver, notifications=Notifications(notifier))  # type: ignore[arg-type]
    instance = world.conductor.place(builders.an_instance())
    if where == "spawn":
        driver.failure = raised
    elif raised is not None:
        world.conductor.script(where, raised)
    order = {"full": {"limits": HostLimits(memory_mb=1)}, "node": {"node": "elsewhere"}}.get(where, {})
    world.build(instance, **order)

    results = {"rescheduled": world.conductor.rescheduled, "aborted": world.conductor.aborted}
    heard = {name: each[instance.uuid]["failure"]["code"] for name, each in results.items() if instance.uuid in each}
    assert ({told: code} if told in results else {}) == heard
    assert (told == "finished") == (states.ACTIVE == world.conductor.rows[instance.uuid].vm_state)
    first, second = notifier.sent
    assert ("INFO", f"compute.{HOST}", "compute.instance.create.start") == first[:3]
    assert (last[0], f"compute.{HOST}", last[1]) == second[:3]
    assert (code or type(raised).__name__ if told != "finished" else None) == second[3].get("exception")
    assert counted == world.tracker.failed_builds
    held = {instance.uuid} if told == "finished" else set()
    assert held == set(world.driver.list_instance_uuids()) == set(world.tracker.view().instances)


WRONG = errors.InvalidInput(field="instance.flavor", reason="is odd")
FINAL = [
    ("claim_instance", "the request is wrong", WRONG),
    ("spawn", "the request is wrong", WRONG),
    ("spawn", "the image cannot be used", errors.ImageUnacceptable(image_id="i", reason="unknown format")),
    ("spawn", "the flavor is too small", errors.FlavorDiskTooSmall(flavor_gb=1, image_id="i", image_bytes=2**31)),
]


@pytest.mark.parametrize(("where", "what", "failure"), FINAL, ids=[f"{case[0]}: {case[1]}" for case in FINAL])
def test_what_no_host_can_mend_is_not_tried_elsewhere(where: str, what: str, failure: Exception) -> None:
    """The build is aborted with that error, whether the driver or the conductor raised it."""
    conf = builders.a_conf(reserved_host_memory_mb=0)
    driver = Driver(conf)
    world = one_host(conf, driver)
    instance = world.conductor.place(builders.an_instance())
    if where == "spawn":
        driver.failure = failure
    else:
        world.conductor.script(where, failure)
    world.build(instance)
    assert {} == world.conductor.rescheduled
    assert type(failure).__name__ == world.conductor.aborted[instance.uuid]["failure"]["code"]
    assert [] == world.driver.list_instance_uuids()


def test_a_refused_claim_that_spends_no_attempt_is_no_news() -> None:
    """Another host takes the build at the same attempt: its start and its end are the attempt's."""
    notifier = Notifier()
    world = one_host(
        builders.a_conf(reserved_host_memory_mb=0),
        notifications=Notifications(notifier),  # type: ignore[arg-type]
    )
    world.conductor.counts_attempts = False
    instance = world.conductor.place(builders.an_instance())
    world.build(instance, limits=HostLimits(memory_mb=1))
    assert instance.uuid in world.conductor.rescheduled
    assert [] == notifier.sent


def test_the_start_names_the_image() -> None:
    """Only the start event has the image's name, as in nova."""
    notifier = Notifier()
    world = one_host(
        builders.a_conf(reserved_host_memory_mb=0),
        notifications=Notifications(notifier),  # type: ignore[arg-type]
    )
    world.build(world.conductor.place(builders.an_instance(image=Image(id="i", name="cirros"))))
    assert ["cirros", None] == [content.get("image_name") for *_about, content in notifier.sent]


def test_the_payload_has_novas_keys() -> None:
    """All of nova 12.0.0 but the addresses of networks, which there are none of."""
    flavor = Flavor(vcpus=2, memory_mb=512, root_gb=10, ephemeral_gb=5, id=3, name="m1", flavorid="f3")
    image = Image(id="img", properties={"architecture": "x86_64", "os_type": "linux"})
    instance = builders.an_instance(
        flavor=flavor, image=image, node="n1", vm_state="active", launched_at="now", metadata={"a": "b"}
    )
    said = payload(instance, "h1")
    keys = (
        "tenant_id user_id instance_id display_name reservation_id hostname instance_type instance_type_id "
        "instance_flavor_id architecture memory_mb disk_gb vcpus root_gb ephemeral_gb host node availability_zone "
        "cell_name created_at terminated_at deleted_at launched_at image_ref_url os_type kernel_id ramdisk_id state "
        "state_description progress access_ip_v4 access_ip_v6 image_meta metadata message"
    )
    assert set(keys.split()) == said.keys()
    expected = {"disk_gb": 15, "instance_type_id": 3, "os_type": "linux", "host": "h1", "message": "Success"}
    assert expected == {key: said[key] for key in expected}


def test_a_fault_is_cut_for_a_notification() -> None:
    """Its class, its code, and a message of bounded length."""
    said = payload(builders.an_instance(), "h1", RuntimeError("x" * 999))
    assert ("RuntimeError", "x" * 255, 500) == (said["exception"], said["message"], said["code"])
