# SPDX-License-Identifier: Apache-2.0
"""What the backends of an agent ask and report in one message: each step has its own answer."""

from __future__ import annotations

from typing import Any

import pytest

from conductor_stub.volumes.manager import VolumeManager
from fleet import errors
from fleet.db.engine.database import Database
from fleet.db.volumes import pools
from tests.worlds.conductor import context, step_answer
from tests.worlds.volumes import A, B, Volumes

UNKNOWN = "00000000-0000-0000-0000-000000000001"


class VolumeSteps(Volumes):
    """``ask`` returns what the agent receives: an answer or an error for each step."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.manager = VolumeManager(self.volume_placement, self.volume_progress)

    def ask_steps(self, *steps: dict[str, Any]) -> list[Any]:
        return [step_answer(answer) for answer in self.manager.volume_steps(context(), steps=list(steps))]


@pytest.fixture
def world(database: Database) -> VolumeSteps:
    return VolumeSteps(database)


def done(uuid: str, host: str = A[0], **other: Any) -> dict[str, Any]:
    return {"method": "volume_done", "volume_uuid": uuid, "attempt": 1, "host": host, "status": "creating", **other}


def find(*uuids: str, host: str = A[0]) -> dict[str, Any]:
    return {"method": "get_host_volumes", "host": host, "volume_uuids": list(uuids)}


def test_reports_of_several_backends(world: VolumeSteps) -> None:
    """Each volume moves on, and is seen once: the generation advances by one."""
    volumes = [world.ask(place) for place in (A, B, A)]
    before = world.database.read(lambda connection: connection.exec_driver_sql(_GENERATION).scalar_one())
    answers = world.ask_steps(*(done(uuid, host) for uuid, host in zip(volumes, (A[0], B[0], A[0]), strict=True)))
    assert [(uuid, "available") for uuid in volumes] == [(each["uuid"], each["status"]) for each in answers]
    after = world.database.read(lambda connection: connection.exec_driver_sql(_GENERATION).scalar_one())
    assert before + 1 == after
    assert [(20, 2), (10, 1)] == world.allocated()


def test_a_backend_finds_its_own_volumes(world: VolumeSteps) -> None:
    """Not those of another backend, nor deleted ones; in the same message as reports."""
    mine, other, gone = world.ask(A), world.ask(B), world.available()
    world.operator.delete_volume(gone)
    world.done(gone, "deleting")
    found, theirs, made = world.ask_steps(find(mine, other, gone, UNKNOWN), find(other, host=B[0]), done(mine))
    assert ([mine], [other]) == ([each["uuid"] for each in found], [each["uuid"] for each in theirs])
    assert ("working", "available") == (found[0]["step"], made["status"])


def test_a_step_that_is_refused_holds_back_no_other(world: VolumeSteps) -> None:
    """An unknown volume, and steps that are no steps."""
    uuid = world.ask(A)
    bad = [{}, {"method": "volume_failed"}, {"method": ["volume_done"]}, find("x"), done(uuid, attempt="one")]
    unknown, *invalid, made = world.ask_steps(done(UNKNOWN), *bad, done(uuid))
    assert isinstance(unknown, errors.NotFound)
    assert [errors.InvalidInput] * len(bad) == [type(each) for each in invalid]
    assert "steps.5.attempt" in invalid[-1].message
    assert "available" == made["status"]


def test_a_report_may_be_repeated_in_one_message(world: VolumeSteps) -> None:
    """The second one changes nothing."""
    uuid = world.ask(A)
    assert ["available"] * 2 == [each["status"] for each in world.ask_steps(done(uuid), done(uuid))]
    assert [10, 0] == [row.allocated_capacity_gb for row in world.database.read(pools.list_all)]


def test_a_late_report_of_a_step_that_moved_on(world: VolumeSteps) -> None:
    """For this backend the volume is gone, and it learns nothing of where it is now."""
    uuid = world.ask(A, B)
    world.fails(uuid)
    (answer,) = world.ask_steps(done(uuid))
    assert ("deleted", 0, None) == (answer["status"], answer["attempt"], answer["host"])


_GENERATION = "SELECT value FROM generations WHERE id = 1"
