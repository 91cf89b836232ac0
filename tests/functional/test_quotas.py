# SPDX-License-Identifier: Apache-2.0
"""Quotas of projects: nothing is taken above them, whoever asks at the same time."""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Callable
from concurrent import futures
from typing import Any

import pytest

from conductor_stub.builds import acceptance
from conductor_stub.steps.limits import StepLimits
from fleet import errors
from fleet.context import new_context
from fleet.db.engine.database import Database
from fleet.db.tables import models
from fleet.objects import BuildRequest, Flavor, VolumeRequest
from fleet.objects.quota import NO_LIMITS, Quota
from tests.functional.test_own_volumes import statements
from tests.worlds.conductor import Conductor
from tests.worlds.volumes import Volumes

_MIGRATION = "fleet.db.schema.migrations.versions.0031_limit_the_local_disk_of_projects"
WEB = new_context(project_id="web")
SMALL, LARGE = {"vcpus": 1, "memory_mb": 512}, {"vcpus": 4, "memory_mb": 1024}


def build(conductor: Conductor, count: int = 1, project: str | None = "web", **request: Any) -> list[str]:
    asked = BuildRequest.from_wire({"flavor": SMALL, "count": count, **request})
    return [each["uuid"] for each in conductor.intake.accept(new_context(project_id=project), asked)["instances"]]


def used(conductor: Conductor, project: str = "web") -> dict[str, int]:
    found: dict[str, int] = conductor.operator.show_quota(project)["used"]
    return {name: number for name, number in found.items() if number}


def refusal(work: Callable[[], object]) -> list[tuple[str, int, int, int]]:
    """Resource, quota, what is used and what was asked for."""
    with pytest.raises(errors.QuotaExceeded) as refused:
        work()
    assert 403 == refused.value.code
    return [(each["resource"], each["quota"], each["used"], each["asked"]) for each in refused.value.exceeded]


def race(work: Callable[[int], object], number: int) -> tuple[int, int]:
    """Run ``work`` in many threads. Return how many were accepted, and how many refused for the quota."""
    refused = 0
    with futures.ThreadPoolExecutor(16) as threads:
        running = [threads.submit(work, each) for each in range(number)]
        for each in running:
            try:
                each.result()
            except errors.QuotaExceeded:
                refused += 1
    return number - refused, refused


@pytest.mark.parametrize("count", [1, 5])
def test_two_conductors_accept_exactly_the_quota(conductor: Conductor, count: int) -> None:
    """200 requests at once, of one instance and of several: the quota is 50 instances, and 50 there are."""
    other = Conductor(conductor.database)
    conductor.operator.set_quota("web", {"instances": 50})
    both = conductor, other
    accepted, refused = race(lambda number: build(both[number % 2], count), 200 // count)
    assert (50 // count, 150 // count) == (accepted, refused)
    assert {"instances": 50, "cores": 50, "ram": 50 * 512} == used(conductor)


def test_the_defaults_hold_for_a_project_that_nobody_has_heard_of(database: Database) -> None:
    """It has no row that could be locked; of two conductors that insert one at once, both go on."""
    limits = StepLimits(default_quota=Quota(cores=20))
    both = Conductor(database, limits), Conductor(database, limits)
    assert (20, 20) == race(lambda number: build(both[number % 2], project="new"), 40)
    assert [] == both[0].operator.list_quotas()
    assert {"instances": 20, "cores": 20, "ram": 20 * 512} == used(both[0], "new")


def test_volumes_are_accepted_up_to_the_quota(database: Database) -> None:
    """40 requests of two conductors for two volumes each: 10 volumes there are."""
    first = Conductor(database)
    first.operator.set_quota("web", {"volumes": 10, "gigabytes": 1000})
    both = first, Conductor(database)
    asked = VolumeRequest.from_wire({"size": 3, "count": 2})
    assert (5, 35) == race(lambda number: both[number % 2].volume_creation.accept(WEB, asked), 40)
    assert {"volumes": 10, "gigabytes": 30} == used(first)


def test_each_request_of_a_group_is_judged_as_if_alone(conductor: Conductor) -> None:
    """Together in one transaction: the one that is too large is refused, and the smaller ones after it are accepted."""
    conductor.operator.set_quota("web", {"instances": 4})
    context = new_context(project_id="web")
    planned = [
        conductor.intake.plan(context, BuildRequest.from_wire({"flavor": SMALL, "count": count}))
        for count in (3, 2, 1, 1)
    ]
    acceptances = [acceptance.Acceptance(stored, rows, None) for stored, rows in planned]
    answers = conductor.database.write(acceptance.insert_all, acceptances, NO_LIMITS)
    assert [None, errors.QuotaExceeded, None, errors.QuotaExceeded] == [each and type(each) for each in answers]
    assert {"instances": 4, "cores": 4, "ram": 4 * 512} == used(conductor)
    # The commit is repeated: what was accepted takes nothing more, and needs no room.
    again = conductor.database.write(acceptance.insert_all, [acceptances[0], acceptances[2]], NO_LIMITS)
    assert [None, None] == again


def test_a_refusal_has_every_number(conductor: Conductor) -> None:
    """Each resource that is exceeded, with its quota, what is used and what was asked for; nothing is written."""
    conductor.operator.set_quota("web", {"cores": 4, "ram": 1024, "instances": 10})
    build(conductor)
    assert [("cores", 4, 1, 8), ("ram", 1024, 512, 2048)] == refusal(lambda: build(conductor, 2, flavor=LARGE))
    with pytest.raises(errors.QuotaExceeded) as refused:
        build(conductor, flavor=LARGE)
    assert (
        "Quota exceeded in project web: cores (4 requested, 1 of 4 used), ram (1024 requested, 512 of 1024 used)"
        == refused.value.message
    )
    assert {"instances": 1, "cores": 1, "ram": 512} == used(conductor)


def test_failed_builds_count_until_they_are_deleted(conductor: Conductor) -> None:
    """An instance in ERROR has what it was asked with; a deleted one has nothing."""
    conductor.operator.set_quota("web", {"instances": 2})
    uuids = build(conductor, 2)
    conductor.clock.advance(conductor.limits.build_timeout_s + 1)
    conductor.sweeper.end_overdue()
    assert ["error", "error"] == [each["vm_state"] for each in conductor.operator.list_instances({})]
    assert [("instances", 2, 2, 1)] == refusal(lambda: build(conductor))
    conductor.termination.terminate(WEB, uuids[:1])
    build(conductor)
    assert {"instances": 2, "cores": 2, "ram": 1024} == used(conductor)


def test_a_project_has_its_own_quota(conductor: Conductor) -> None:
    """Another project, and requests without a project, are not limited by it."""
    conductor.operator.set_quota("web", {"instances": 0})
    assert [("instances", 0, 0, 1)] == refusal(lambda: build(conductor))
    assert (3, 1) == (len(build(conductor, 3, "other")), len(build(conductor, project=None)))


def test_limits_are_set_changed_and_removed(conductor: Conductor) -> None:
    """Limits that are not named stay; None returns to the default."""
    operator = conductor.operator
    operator.set_quota("web", {"cores": 8, "ram": 1000})
    operator.set_quota("web", {"cores": 9, "ram": None})
    shown = operator.show_quota("web")
    assert ({"cores": 9}, 9, -1) == (shown["own"], shown["limits"]["cores"], shown["limits"]["ram"])
    assert ["web"] == [each["project_id"] for each in operator.list_quotas()]
    for _twice in range(2):
        operator.delete_quota("web")
    assert ([], {}) == (operator.list_quotas(), operator.show_quota("web")["own"])


@pytest.mark.parametrize(
    ("limits", "field"), [({"cpus": 1}, "limits.cpus"), ({"cores": -2}, "limits.cores"), ({"ram": "1"}, "limits.ram")]
)
def test_wrong_limits_are_refused(conductor: Conductor, limits: dict[str, Any], field: str) -> None:
    """The error names the resource."""
    with pytest.raises(errors.InvalidInput) as wrong:
        conductor.operator.set_quota("web", limits)
    assert wrong.value.field.startswith(field)


def test_server_groups_are_limited(conductor: Conductor) -> None:
    """A group that is deleted makes room for another."""
    conductor.operator.set_quota("web", {"server_groups": 1})
    create = conductor.operator.under("web").create_group
    create("one", "affinity")
    assert [("server_groups", 1, 1, 1)] == refusal(lambda: create("two", "affinity"))
    conductor.operator.delete_group("one")
    create("two", "affinity")


def _resizable(conductor: Conductor, flavor: dict[str, int] = SMALL) -> str:
    (uuid,) = build(conductor, flavor=flavor)
    values = {"vm_state": "active", "task_state": None, "host": "h1", "node": "h1", "launched_on": "h1"}
    where = models.instances.c.uuid == uuid
    conductor.database.write(lambda tx: tx.execute(models.instances.update().where(where).values(**values)))
    return uuid


def test_a_resize_needs_room_for_what_the_new_flavor_has_more(conductor: Conductor) -> None:
    """While it lasts the larger flavor counts, also before any host has taken it."""
    uuid = _resizable(conductor)
    conductor.operator.set_quota("web", {"cores": 4, "ram": 600})
    resize = conductor.operator.under("web").resize_instance
    assert [("ram", 600, 512, 512)] == refusal(lambda: resize(uuid, {**LARGE}))
    conductor.operator.set_quota("web", {"ram": 1024})
    resize(uuid, {**LARGE})
    assert {"instances": 1, "cores": 4, "ram": 1024} == used(conductor)
    assert [("cores", 4, 4, 1), ("ram", 1024, 1024, 512)] == refusal(lambda: build(conductor))


def test_a_resize_to_less_counts_as_it_was_until_it_is_confirmed(conductor: Conductor) -> None:
    """A revert therefore never exceeds the quota."""
    uuid = _resizable(conductor)
    conductor.operator.under("web").resize_instance(uuid, {"vcpus": 1, "memory_mb": 64})
    assert {"instances": 1, "cores": 1, "ram": 512} == used(conductor)


DISKS = [(0, 0, 0), (1, 0, 0), (5, 2, 0), (0, 0, 1), (0, 0, 1023), (3, 0, 1024), (3, 1, 1025), (0, 7, 4096)]
#: The largest numbers that a flavor may have would not fit into 32 bits together.
MOST = 2**31 - 1


def disks(root_gb: int, ephemeral_gb: int, swap: int) -> dict[str, int]:
    return {"vcpus": 1, "memory_mb": 512, "root_gb": root_gb, "ephemeral_gb": ephemeral_gb, "swap": swap}


def test_local_disk_is_root_ephemeral_and_swap(conductor: Conductor) -> None:
    """In GiB. The swap of each instance is rounded up."""
    total = 0
    for root_gb, ephemeral_gb, swap in DISKS:
        build(conductor, 2, flavor=disks(root_gb, ephemeral_gb, swap))
        total += 2 * (root_gb + ephemeral_gb + math.ceil(swap / 1024))
        assert total == used(conductor).get("local_gb", 0)


def test_a_build_above_the_local_disk_is_refused(conductor: Conductor) -> None:
    """Exactly the quota fits. A deleted instance gives its disk back."""
    conductor.operator.set_quota("web", {"local_gb": 10})
    assert [("local_gb", 10, 0, 11)] == refusal(lambda: build(conductor, flavor=disks(5, 5, 1)))
    (uuid,) = build(conductor, flavor=disks(5, 4, 1024))
    assert [("local_gb", 10, 10, 1)] == refusal(lambda: build(conductor, flavor=disks(0, 0, 1)))
    build(conductor, flavor=disks(0, 0, 0))
    conductor.termination.terminate(WEB, [uuid])
    build(conductor, flavor=disks(10, 0, 0))


def test_two_conductors_accept_exactly_the_local_disk(conductor: Conductor) -> None:
    """20 requests at once for 5 GiB each: the quota is 50 GiB."""
    both = conductor, Conductor(conductor.database)
    conductor.operator.set_quota("web", {"local_gb": 50})
    assert (10, 10) == race(lambda number: build(both[number % 2], flavor=disks(3, 1, 900)), 20)
    assert 50 == used(conductor)["local_gb"]


def test_the_sum_of_the_largest_disks_is_a_refusal(conductor: Conductor) -> None:
    """Not an error of the database, which would keep all requests of the project out."""
    build(conductor, 2, flavor=disks(MOST, MOST, MOST))
    conductor.operator.set_quota("web", {"local_gb": 1})
    each = 2 * MOST + 2**21
    assert [("local_gb", 1, 2 * each, 1)] == refusal(lambda: build(conductor, flavor=disks(1, 0, 0)))


def test_a_resize_counts_the_larger_local_disk(conductor: Conductor) -> None:
    """From the moment it is accepted, and until it is confirmed or reverted."""
    (larger, smaller) = _resizable(conductor, disks(2, 0, 100)), _resizable(conductor, disks(6, 1, 0))
    conductor.operator.set_quota("web", {"local_gb": 13})
    resize = conductor.operator.under("web").resize_instance
    assert [("local_gb", 13, 10, 4)] == refusal(lambda: resize(larger, disks(2, 3, 1025)))
    resize(larger, disks(2, 2, 1025))
    assert 13 == used(conductor)["local_gb"]
    resize(smaller, disks(6, 0, 0))
    assert 13 == used(conductor)["local_gb"]


def test_instances_of_an_earlier_release_get_their_swap(conductor: Conductor) -> None:
    """That of the flavor that they have now, after a resize."""
    (small,) = build(conductor, flavor=disks(1, 0, 1024))
    (resized,) = build(conductor, flavor=disks(1, 0, 1024))
    (none,) = build(conductor)
    flavor = Flavor(vcpus=1, memory_mb=512, swap=3072).to_wire()
    rows, fill = models.instances, importlib.import_module(_MIGRATION)._FILL
    with conductor.database.engine.begin() as connection:
        connection.execute(rows.update().values(swap_mb=0))
        connection.execute(rows.update().where(rows.c.uuid == resized).values(resized_spec={"flavor": flavor}))
        connection.execute(fill)
        found = {row.uuid: row.swap_mb for row in connection.execute(rows.select())}
    assert {small: 1024, resized: 3072, none: 0} == found


@pytest.fixture
def volumes(database: Database) -> Volumes:
    return Volumes(database)


def test_extensions_and_snapshots_take_gigabytes(volumes: Volumes) -> None:
    """A snapshot has the size of its volume and is no volume; an extension counts from the moment it is accepted."""
    volumes.volume_scheduler.answers.append([("m1@fast", "p1")])
    uuid = volumes.volume_creation.accept(WEB, VolumeRequest.from_wire({"size": 10}))[0]["uuid"]
    volumes.serve()
    volumes.done(uuid)
    volumes.operator.set_quota("web", {"volumes": 1, "gigabytes": 25})
    operator = volumes.operator.under("web")
    operator.create_snapshot(uuid)
    assert {"volumes": 1, "gigabytes": 20} == used(volumes)
    assert [("gigabytes", 25, 20, 6)] == refusal(lambda: operator.extend_volume(uuid, 16))
    assert [("gigabytes", 25, 20, 10)] == refusal(lambda: operator.create_snapshot(uuid))
    operator.extend_volume(uuid, 15)
    assert {"volumes": 1, "gigabytes": 25} == used(volumes)
    volumes.fails(uuid, status="extending", step="extending")
    assert {"volumes": 1, "gigabytes": 20} == used(volumes)


def test_projects_without_limits_cost_no_statement(conductor: Conductor) -> None:
    """With limits there are two more: the lock and the sum; and one more when a project gets its row."""
    build(conductor)
    sent = []
    for limits in ({}, {"instances": 10}, {"instances": 10}):
        if limits:
            conductor.operator.set_quota("web", limits)
        with statements(conductor.database) as each:
            build(conductor)
        sent.append(len(each))
    without, with_, again = sent
    assert (2, 2) == (with_ - without, again - without)
    default = dataclasses.replace(conductor.limits, default_quota=Quota(instances=10))
    limited = Conductor(conductor.database, default)
    counts = []
    for _twice in range(2):
        with statements(conductor.database) as each:
            build(limited, project="new")
        counts.append(len(each) - without)
    assert [3, 2] == counts
