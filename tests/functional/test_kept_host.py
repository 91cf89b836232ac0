# SPDX-License-Identifier: Apache-2.0
"""A host is kept for the build that has waited longest, so that small builds do not starve a large one."""

from __future__ import annotations

import collections

import pytest

from conductor_stub.steps.limits import StepLimits
from fleet.db.engine.database import Database
from fleet.db.tables import models
from tests.functional.test_waking import Stage, beat
from tests.worlds.conductor import context

PATIENCE_S = 100


@pytest.fixture
def stage(database: Database) -> Stage:
    stage = Stage(database, StepLimits(queue_patience_s=PATIENCE_S))
    stage.add_host("h2")
    stage.fill("h1")
    stage.fill("h2")
    return stage


def wait(stage: Stage, seconds: float) -> list[str]:
    stage.clock.advance(seconds)
    beat(stage, "h1", "h2")
    woken = stage.look()
    for uuid in woken:
        stage.refuse()
        stage.placement.place(context(), [uuid], 1)
    stage.look()
    return woken


def kept(stage: Stage) -> tuple[str, str] | None:
    return stage.placement.kept and (stage.placement.kept.host, stage.placement.kept.uuid)


def test_a_host_is_kept_after_a_while(stage: Stage) -> None:
    """The nearest one. Builds of other requests are told to leave it alone, and its room wakes no other."""
    large = stage.queue(vcpus=8)
    small = stage.queue()
    wait(stage, PATIENCE_S - 1)
    assert None is kept(stage)
    wait(stage, 1)
    assert ("h1", large) == kept(stage)

    stage.report("h1", reserved_vcpus=4)
    assert [] == stage.look()
    stage.report("h2", reserved_vcpus=7)
    assert [small] == stage.look()
    stage.refuse()
    stage.placement.place(context(), [small], 1)
    assert ["h1"] == stage.scheduler.requests[-1][1]["ignore_hosts"]

    stage.report("h1")
    assert [large] == stage.look()
    stage.scheduler.answers.append([("h1", ())])
    stage.placement.place(context(), [large], 1)
    assert "ignore_hosts" not in stage.scheduler.requests[-1][1]


def test_a_host_is_kept_for_one_build_after_the_other(stage: Stage) -> None:
    """Projects take turns, and each is served by the age of its builds."""
    a = [stage.queue(vcpus=8, project="a") for _each in range(2)]
    b = [stage.queue(vcpus=8, project="b") for _each in range(2)]
    wait(stage, PATIENCE_S + 1)
    served = []
    for _each in range(4):
        assert stage.placement.kept is not None
        served.append(stage.placement.kept.uuid)
        stage.termination.terminate(context(), [served[-1]])
        wait(stage, 1)
    assert [a[0], b[0], a[1], b[1]] == served
    assert None is kept(stage)


def gone(stage: Stage, uuid: str) -> None:
    stage.termination.terminate(context(), [uuid])


ENDS = [
    ("its build is deleted", gone),
    ("the host is disabled", lambda stage, uuid: stage.operator.update_service("h1", True)),
    ("the host is forced down", lambda stage, uuid: stage.operator.force_down("h1", True)),
]


@pytest.mark.parametrize(("why", "end"), ENDS, ids=[case[0] for case in ENDS])
def test_what_ends_it(stage: Stage, why: str, end) -> None:
    """Within a second. What was refused because of the host may have it then."""
    large = stage.queue(vcpus=8)
    wait(stage, PATIENCE_S)
    assert ("h1", large) == kept(stage)
    stage.report("h1", reserved_vcpus=4)
    small = stage.queue()
    assert [] == stage.look()
    end(stage, large)
    woken = stage.look() + stage.look()
    assert None is kept(stage)
    assert ([small] if end is gone else []) == woken


def test_the_refusal_names_it(stage: Stage) -> None:
    """As CAPACITY, although the scheduler sees only that the request excludes every host."""
    stage.queue(vcpus=8)
    wait(stage, PATIENCE_S)
    stage.refuse(code="POLICY")
    stage.scheduler.answers[-1].details["considered"] = 0
    (uuid,) = stage.create()
    stage.work()
    (fault,) = stage.faults(uuid)
    assert "CAPACITY" == fault["details"]["reason_code"]
    assert "Host h1 is kept for a build that has waited longest for room." in fault["message"]


def test_builds_of_hosts_that_take_none_hide_no_other(stage: Stage) -> None:
    """A host is kept for the next build that has one, however many projects are before it."""
    *_others, last = [stage.queue(vcpus=8, project=f"p{number}") for number in range(22)]
    queued = models.queued_builds
    stage.database.write(
        lambda tx: tx.execute(queued.update().where(queued.c.instance_uuid == last).values(nearest="h2"))
    )
    stage.operator.update_service("h1", True)
    wait(stage, PATIENCE_S)
    assert ("h2", last) == kept(stage)


def test_a_build_waits_that_only_the_kept_host_could_take(stage: Stage) -> None:
    """The scheduler says NEVER_FITS of the other hosts: it did not look at this one."""
    large = stage.queue(vcpus=8)
    wait(stage, PATIENCE_S)
    assert ("h1", large) == kept(stage)
    uuid = stage.queue(vcpus=7, code="NEVER_FITS")
    assert ("building", "queued", 1, None) == stage.state(uuid)
    (shown,) = [each for each in stage.operator.list_queue()["builds"] if each["uuid"] == uuid]
    assert "CAPACITY" == shown["reason"]


def test_the_end_wakes_a_build_whose_conditions_allow_only_that_host(stage: Stage) -> None:
    """The scheduler says POLICY of the other hosts. Room alone does not wake such a build."""
    large = stage.queue(vcpus=8)
    wait(stage, PATIENCE_S)
    stage.report("h1")
    uuid = stage.queue(code="POLICY")
    assert [large] == stage.look()
    gone(stage, large)
    assert [uuid] == stage.look() + stage.look()
    assert None is kept(stage)


@pytest.mark.parametrize(("patience_s", "placed"), [(0, False), (PATIENCE_S, True)], ids=["never kept", "kept"])
def test_small_builds_do_not_starve_a_large_one(database: Database, patience_s: int, placed: bool) -> None:
    """A host of 8 vcpus, a build that needs them all, and always two builds of 1 vcpu that wait. One instance ends every ten
    seconds. Without a kept host the large one never fits."""
    stage = Stage(database, StepLimits(queue_patience_s=patience_s))
    running: collections.deque[str] = collections.deque()
    stage.fill(memory_mb=0, vcpus=0, disk_gb=0)

    def run(uuid: str) -> None:
        stage.scheduler.answers.append([("h1", ())])
        stage.placement.place(context(), [uuid], 1)
        stage.claim(uuid, "h1")
        stage.finish(uuid, "h1")
        running.append(uuid)

    for _each in range(8):
        (uuid,) = stage.create(flavor={"vcpus": 1, "memory_mb": 1, "root_gb": 1})
        stage.tasks.cast.clear()
        run(uuid)
    large = stage.queue(vcpus=8, memory_mb=1, root_gb=1)
    for _each in range(2):
        stage.queue(vcpus=1, memory_mb=1, root_gb=1)
    stage.settle()
    for _second in range(30):
        stage.clock.advance(10)
        beat(stage, "h1")
        if running:
            over = running.popleft()
            stage.termination.terminate(context(), [over])
            stage.agents.destroyed(context(), over, "h1")
        for uuid in stage.look():
            if uuid == large and len(running):
                stage.refuse()
                stage.placement.place(context(), [uuid], 1)
                continue
            run(uuid)
            stage.queue(vcpus=1, memory_mb=1, root_gb=1)
        if large in running:
            break
    assert placed == (large in running)
