# SPDX-License-Identifier: Apache-2.0
"""Plays one scenario: hurt, heal, rest, judge, delete everything, judge again."""

from __future__ import annotations

import dataclasses
import random
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from fleet import errors
from fleet.context import new_context
from tests.chaos import figures, logs
from tests.chaos.servers import SINGLE
from tests.chaos.watcher import Verdict, Watcher
from tests.chaos.world import ChaosWorld
from tests.invariants import drivers, moment, rest
from tests.invariants.ledger import Ledger

#: A scenario's own part: it may raise AssertionError when what it counts on does not come.
Hurt = Callable[[ChaosWorld, random.Random], None]
#: Until audits, heartbeats and feeds have met.
PATIENCE_S = 25
#: Instances that one call deletes: for all of them, a busy machine needs longer than a call may take here.
AT_A_TIME = 20


@dataclasses.dataclass(frozen=True)
class Scenario:
    """``name`` is ``KIND:DETAIL``; ``short`` ones are part of ``make long``.

    :param servers: the kind of servers of its world, of ``tests.chaos.servers.KINDS``
    """

    name: str
    hurt: Hurt
    short: bool = False
    servers: str = SINGLE

    @property
    def about(self) -> str:
        return (self.hurt.__doc__ or "").strip().splitlines()[0]


@dataclasses.dataclass(frozen=True)
class Result:
    scenario: str
    seed: int
    seconds: float
    verdict: Verdict
    ended: Mapping[str, int]
    figures: Mapping[str, figures.Figures]
    #: What the scenario itself has measured, by name.
    measured: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def good(self) -> bool:
        return not self.verdict.lines

    def to_json(self) -> dict[str, Any]:
        return {
            "scenario": self.scenario,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "ended": dict(self.ended),
            "held": dict(self.verdict.held),
            "violated": dict(self.verdict.violated),
            "violations": self.verdict.lines,
            "measured": dict(self.measured),
            "figures": {name: dataclasses.asdict(each) for name, each in self.figures.items()},
        }


def play(world: ChaosWorld, scenario: Scenario, seed: int, baseline: Mapping[str, figures.Figures]) -> Result:
    """A failure inside the world does not raise; it is in the verdict."""
    world.name = f"{scenario.name.replace(':', '-').replace('.', '-')}-{seed}-{time.monotonic_ns()}"
    world.measured = {}
    verdict, began, written = Verdict(), time.monotonic(), logs.Logs(world)
    ended: Mapping[str, int] = {}
    with Watcher(world, verdict):
        try:
            scenario.hurt(world, random.Random(f"{seed}/{scenario.name}"))
        except Exception as unmet:
            verdict.note(f"the scenario itself: {_in_a_line(unmet)}")
        try:
            ended = _judge(world, verdict, written, baseline)
        except Exception as unmet:
            verdict.note(f"the world did not come to rest: {_in_a_line(unmet)}")
    took = time.monotonic() - began
    return Result(scenario.name, seed, took, verdict, ended, figures.of_all(world), world.measured)


def _judge(
    world: ChaosWorld, verdict: Verdict, written: logs.Logs, baseline: Mapping[str, figures.Figures]
) -> dict[str, int]:
    world.heal()
    world.wait_until_up()
    world.settle()
    verdict.judge("I11", _builds_succeed(world))
    ledger = _at_rest(world, verdict)
    ended = {state: sum(row["vm_state"] == state for row in _mine(world, ledger)) for state in _STATES}
    active = [row for row in _mine(world, ledger) if row["vm_state"] == "active" and not row["deleted"]]
    verdict.judge("I10", [*logs.every_build_can_be_followed(active, written.read())])
    verdict.judge("I10", [*logs.no_secret_is_told(world, ledger, written.read())])
    clear(world)
    _patiently(verdict, "I4", lambda: list(rest.nothing_is_used(world.ledger(), world.views(), _guests(world))))
    _patiently(verdict, "I9", lambda: list(figures.queues_are_empty(world)))
    _patiently(verdict, "I9", lambda: list(figures.back_to(baseline, figures.of_all(world))))
    return ended


def _in_a_line(failure: Exception) -> str:
    """Return the error, with the line of the scenario that it comes from, and not only that of a helper."""
    frames = traceback.extract_tb(failure.__traceback__)
    own = [each for each in frames if "/scenarios/" in each.filename] or frames
    where = dict.fromkeys(f"{each.name}, line {each.lineno}" for each in (own[-1], frames[-1]))
    return f"{type(failure).__name__}: {' '.join(str(failure).split())[:300]} ({'; '.join(where)})"


_STATES = ("active", "error", "deleted", "building")


def clear(world: ChaosWorld) -> None:
    """Delete every instance: of a thousand it takes as long as it takes, while there are fewer and fewer."""
    live = [row["uuid"] for row in world.ledger().live]
    for first in range(0, len(live), AT_A_TIME):
        world.terminate(live[first : first + AT_A_TIME])
    fewest, still_since = len(world.ledger().live), time.monotonic()
    while fewest and time.monotonic() - still_since < PATIENCE_S:
        time.sleep(0.2)
        left = len(world.ledger().live)
        if left < fewest:
            fewest, still_since = left, time.monotonic()


def _builds_succeed(world: ChaosWorld) -> list[str]:
    """I11: after healing, without a restart, builds end ACTIVE."""
    before = {row["uuid"] for row in world.ledger().instances}
    told = world.boot(4)
    world.settle()
    mine = [row for row in world.ledger().instances if row["uuid"] not in before]
    if not told:
        return ["the conductor did not answer"]
    return [
        f"{row['uuid']} is {row['vm_state']}: {_fault(world.ledger(), row['uuid'])}"
        for row in mine
        if row["vm_state"] != "active"
    ]


def _fault(ledger: Ledger, uuid: str) -> str:
    return "; ".join(fault["message"] for fault in ledger.faults.get(uuid, ()))


def _at_rest(world: ChaosWorld, verdict: Verdict) -> Ledger:
    """All accounts agree, after some patience."""
    checks: list[tuple[str, Callable[[], list[str]]]] = [
        ("I3", lambda: list(rest.every_build_is_over(world.ledger()))),
        ("I2", lambda: list(rest.guests_are_where_the_ledger_says(world.ledger(), _guests(world)))),
        ("I12", lambda: list(rest.power_states_agree(world.ledger(), _guests(world)))),
        ("I5", lambda: list(rest.agents_agree(world.ledger(), world.views(), _guests(world)))),
        ("I5", lambda: list(rest.the_scheduler_agrees(world.ledger(), _capacity(world)))),
        *((number, lambda check=check: list(check(world.ledger()))) for number, check in moment.CHECKS),
    ]
    for number, check in checks:
        _patiently(verdict, number, check)
    return world.ledger()


def _patiently(verdict: Verdict, number: str, check: Callable[[], list[str]]) -> None:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            wrong = check()
        except (sa.exc.SQLAlchemyError, errors.FleetError) as away:
            wrong = [f"cannot be judged: {type(away).__name__}"]
        if not wrong or time.monotonic() > end:
            verdict.judge(number, wrong)
            return
        time.sleep(0.5)


def _mine(world: ChaosWorld, ledger: Ledger) -> list:
    return [row for row in ledger.instances if row["name"].startswith(world.name)]


def _guests(world: ChaosWorld) -> dict[str, dict[str, dict]]:
    return drivers.guests(world.trio.instances_path)


def _capacity(world: ChaosWorld) -> dict[str, Any]:
    return world.trio.scheduler.capacity(new_context(), {"num_instances": 1, "instance_type": rest.PROBE}, {})
