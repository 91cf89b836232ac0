# SPDX-License-Identifier: Apache-2.0
"""The step machine over a third kind of row, which is kept in memory."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest

from conductor_stub.steps.limits import StepContext, StepLimits
from conductor_stub.steps.machine import PlacedRow
from fleet.clock import seconds
from fleet.objects import Place

NOW = datetime.datetime(2026, 3, 1, 12)
LIMITS = StepLimits(placing_timeout_s=30, retry_interval_s=3)
CTX = StepContext(LIMITS, NOW)
TX: Any = None
WAITING, PLACING, CLAIMED, ERROR = "creating", "placing", "reserved", "error"


@dataclasses.dataclass
class Volume:
    status: str = WAITING
    attempt: int = 1
    step_deadline: datetime.datetime = NOW - seconds(1)
    deadline: datetime.datetime = NOW + seconds(600)
    uuid: str = "v"


class Volumes(PlacedRow[Volume, Volume]):
    waiting, placing = WAITING, PLACING

    def __init__(self, *rows: Volume) -> None:
        self.rows = {row.uuid: row for row in rows}

    def lock(self, tx: Any, uuids: Collection[str]) -> list[Volume]:
        return [self.rows[uuid] for uuid in sorted(uuids) if uuid in self.rows]

    def status(self, row: Volume) -> str | None:
        return None if row.status == ERROR else row.status

    def enter(
        self, tx: Any, rows: Sequence[Volume], status: str, due: datetime.datetime, ctx: StepContext
    ) -> list[Volume]:
        for row in rows:
            row.status, row.step_deadline = status, min(due, row.deadline)
        return list(rows)

    def refused(self, tx: Any, row: Volume, error: Exception, ctx: StepContext) -> Volume:
        row.status = ERROR
        return row

    def timed_out(self, tx: Any, row: Volume, ctx: StepContext) -> Volume:
        return self.refused(tx, row, TimeoutError(), ctx)


def take(machine: Volumes) -> Any:
    return machine.take(TX, ["v"], 1, CTX)


def put_back(machine: Volumes) -> Any:
    return machine.put_back(TX, ["v"], 1, NOW + seconds(7), CTX)


def refuse(machine: Volumes) -> Any:
    return machine.refuse(TX, ["v"], 1, ValueError("no backend"), CTX)


def postpone(machine: Volumes) -> Any:
    return machine.postpone(TX, list(machine.rows.values()), CTX)


def time_out(machine: Volumes) -> Any:
    return machine.time_out(TX, "v", CTX)


LATE = NOW - seconds(1)
#: what is done, to a row that has which status and attempt, and what the row then has: status, and seconds to its deadline
MOVES = [
    (take, Volume(WAITING), PLACING, 30),
    (take, Volume(WAITING, deadline=NOW + seconds(10)), PLACING, 10),
    (put_back, Volume(PLACING), WAITING, 7),
    (refuse, Volume(WAITING), ERROR, -1),
    (refuse, Volume(PLACING), ERROR, -1),
    (postpone, Volume(WAITING), WAITING, 3),
    (postpone, Volume(PLACING), WAITING, 3),
    (postpone, Volume(CLAIMED), CLAIMED, 30),
    (time_out, Volume(WAITING, deadline=LATE), ERROR, -1),
    (time_out, Volume(CLAIMED, deadline=LATE), ERROR, -1),
]
STAYS = [
    (take, Volume(WAITING, attempt=2)),
    (take, Volume(PLACING)),
    (take, Volume(CLAIMED)),
    (take, Volume(ERROR)),
    (take, Volume(uuid="another")),
    (put_back, Volume(WAITING)),
    (put_back, Volume(PLACING, attempt=2)),
    (put_back, Volume(CLAIMED)),
    (refuse, Volume(CLAIMED)),
    (refuse, Volume(PLACING, attempt=2)),
    (refuse, Volume(ERROR)),
    (postpone, Volume(PLACING, step_deadline=NOW + seconds(1))),
    (postpone, Volume(ERROR)),
    (time_out, Volume(PLACING)),
    (time_out, Volume(ERROR, deadline=LATE)),
    (time_out, Volume(WAITING, deadline=LATE, uuid="another")),
]


def _name(value: object) -> str | None:
    return (
        value.__name__ if callable(value) else f"{value.status}-{value.attempt}" if isinstance(value, Volume) else None
    )


@pytest.mark.parametrize(("work", "row", "status", "due_s"), MOVES, ids=_name)
def test_a_step_is_taken(work: Callable[[Volumes], Any], row: Volume, status: str, due_s: float) -> None:
    """The row has the next status, and a step deadline that is never later than its deadline."""
    row = dataclasses.replace(row)
    assert work(Volumes(row))
    assert (status, NOW + seconds(due_s)) == (row.status, row.step_deadline)


@pytest.mark.parametrize(("work", "row"), STAYS, ids=_name)
def test_a_message_that_is_late_changes_nothing(work: Callable[[Volumes], Any], row: Volume) -> None:
    """Another status, another attempt, an ended row, a row that does not exist: the caller gets nothing to do."""
    before, row = row, dataclasses.replace(row)
    assert not work(Volumes(row))
    assert before == row


@pytest.mark.parametrize("work", [take, put_back, refuse])
def test_a_step_is_taken_once(work: Callable[[Volumes], Any]) -> None:
    """Of two conductors that receive the same message one has the row."""
    machine = Volumes(Volume(PLACING if work is put_back else WAITING))
    assert [1, 0] == [len(work(machine)), len(work(machine))]


def test_a_row_that_changed_since_it_was_read_is_not_postponed() -> None:
    """A slow worker was faster than the sweeper: its step deadline is another one."""
    seen, row = Volume(PLACING), Volume(PLACING, step_deadline=NOW - seconds(2))
    assert [] == Volumes(row).postpone(TX, [seen], CTX)


AFTER = [
    ("the next alternate", [Place("h2", "h2")], 600, PLACING, 30),
    ("none is left: the scheduler again", [], 600, WAITING, 3),
    ("the deadline is near", [], 2, WAITING, 2),
]


@pytest.mark.parametrize(("why", "places", "left_s", "status", "due_s"), AFTER, ids=[case[0] for case in AFTER])
def test_where_a_row_goes_after_a_failure(
    why: str, places: list[Place], left_s: float, status: str, due_s: float
) -> None:
    """Status and step deadline."""
    assert (status, NOW + seconds(due_s)) == Volumes().after_failure(NOW + seconds(left_s), places, CTX)
