# SPDX-License-Identifier: Apache-2.0
"""kill -9 of one process after the other, at each step of resizes, live migrations and evacuations, also of failing ones."""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any

from fleet import errors, move_states
from fleet.failpoints.names import AFTER_COMMIT, BEFORE_COMMIT
from tests.chaos.run import Scenario
from tests.chaos.scenarios.kills import TOO_LARGE
from tests.chaos.world import HOSTS, NO_ANSWER, ChaosWorld

MOVED = 6
LARGER = {"vcpus": 1, "memory_mb": 96, "root_gb": 1}
_A_HOSTS = [host for host in HOSTS if host.startswith("a")]
_TO_A_PLACE = ("move_accept", "move_take", "move_route", "move_claim", "move_advance")
_PARTS = ("agent.move.before", "agent.move.after")
_CLAIM = ("agent.move_claim.before", "agent.move_claim.after")
_RESIZE = ("resize_instance", {"flavor": LARGER})
_ORDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "resize": _RESIZE,
    "confirm": ("confirm_resize", {}),
    "revert": ("revert_resize", {}),
    "evacuate": ("evacuate_instance", {}),
    "live": ("live_migrate_instance", {}),
    "abort": ("live_migrate_instance", {}),
    "fail": _RESIZE,
    "refuse": ("resize_instance", {"flavor": TOO_LARGE}),
    "overdue": _RESIZE,
}
#: What must go wrong, so that a move gets there.
_TROUBLE: dict[str, dict[str, Any]] = {
    "fail": {"agent.move.before": {"action": "raise"}},
    "overdue": {"agent.move.before": {"action": "delay", "seconds": 3}},
}


def points(transactions: Sequence[str], *steps: str) -> list[str]:
    return [*(f"conductor.{name}.{when}" for name in transactions for when in (BEFORE_COMMIT, AFTER_COMMIT)), *steps]


POINTS = {
    "resize": points(_TO_A_PLACE, *_CLAIM, *_PARTS),
    "confirm": points(("move_confirm", "move_advance"), *_PARTS),
    "revert": points(("move_revert", "move_advance"), *_PARTS),
    "evacuate": points(_TO_A_PLACE, *_CLAIM, *_PARTS),
    "live": points(_TO_A_PLACE, *_CLAIM, *_PARTS),
    "abort": points(["move_abort"]),
    "fail": points(["move_fail"]),
    "refuse": points(["move_refuse"]),
    "overdue": points(["move_overdue"]),
}


def kill_in_move(world: ChaosWorld, chance: random.Random, act: str) -> None:
    """A process dies at each step of the moves of six instances. Every move ends, or leaves no trace."""
    _PREPARE.get(act, _boots)(world)
    # Which of the six meets a death is left to chance.
    deaths = {point: {"action": "exit", "times": 1, "skip": chance.randrange(2)} for point in POINTS[act]}
    world.arm({**deaths, **_TROUBLE.get(act, {})})
    with contextlib.suppress(AssertionError):
        world.until(lambda: _asked(world, act) or _all_fired(world, act), timeout_s=30)
    unmet = [point for point in POINTS[act] if not world.fired(point)]
    world.disarm()
    world.settle()
    if act == "evacuate":
        _force_down(world, False)
    assert not unmet, f"not met: {', '.join(unmet)}"


def _all_fired(world: ChaosWorld, act: str) -> bool:
    return all(world.fired(point) for point in POINTS[act])


def _asked(world: ChaosWorld, act: str) -> bool:
    """Request every move that is possible now; a move that has ended may be requested again. Always False."""
    waiting = [row["uuid"] for row in world.builds() if row["task_state"] is None and _may(row, act)]
    with futures.ThreadPoolExecutor(MOVED) as pool:
        list(pool.map(functools.partial(_ask, world, act), waiting))
    if act == "abort":
        for row in world.builds():
            with contextlib.suppress(*NO_ANSWER, errors.FleetError):
                world.trio.operator("abort_live_migration", name=row["uuid"])
    if act == "overdue":
        _bring_forward(world)
    return False


def _bring_forward(world: ChaosWorld) -> None:
    """The deadlines of moves under way, rather than wait for them."""
    statuses = ", ".join(f"'{each}'" for each in move_states.UNDER_WAY)
    world.sql(
        "UPDATE migrations SET deadline = created_at, step_deadline = created_at"
        f" WHERE status IN ({statuses}) AND instance_uuid IN (SELECT uuid FROM instances WHERE name LIKE :name)",
        name=f"{world.name}%",
    )


def _may(row: dict, act: str) -> bool:
    if act == "evacuate":
        return row["vm_state"] == "active" and row["host"] in _A_HOSTS
    return row["vm_state"] == ("resized" if act in ("confirm", "revert") else "active")


def _ask(world: ChaosWorld, act: str, uuid: str) -> None:
    method, arguments = _ORDERS[act]
    with contextlib.suppress(*NO_ANSWER, errors.FleetError):
        world.trio.operator(method, name=uuid, **arguments)


def _boots(world: ChaosWorld) -> None:
    world.boot_until_told(MOVED)
    world.settle()


def _resizes(world: ChaosWorld) -> None:
    _boots(world)
    _asked(world, "resize")
    world.until(lambda: world.count("resized"), timeout_s=30)
    world.settle()


def _loses_hosts(world: ChaosWorld) -> None:
    # A host that is forced on a build is not forced on its moves, where one to be ignored would be.
    for host in _A_HOSTS:
        world.boot_until_told(MOVED // len(_A_HOSTS), availability_zone=f"nova:{host}")
    world.settle()
    world.trio.kill("agent-a")
    _force_down(world, True)


def _force_down(world: ChaosWorld, forced: bool) -> None:
    for host in _A_HOSTS:
        world.trio.operator("force_down", host=host, forced=forced)


def dead_at_an_arrival(world: ChaosWorld, chance: random.Random) -> None:
    """A destination dies before it takes its guest in. The move ends without it; it takes the guest in when it is back."""
    (uuid,) = world.boot_until_told(1, availability_zone="nova:a1")
    world.settle()
    # One process has both hosts: it prepares, migrates, and stops before the third step.
    world.failpoints(agent__move__before={"action": "pause", "seconds": 120, "times": 1, "skip": 2})
    world.trio.operator("live_migrate_instance", name=uuid, host="a2")
    world.until(lambda: world.fired("agent.move.before"))
    world.trio.kill("agent-a")
    world.until(lambda: not world.unsettled(), timeout_s=60)
    (row,) = world.builds()
    assert "a2" == row["host"], f"the instance is on {row['host']}"
    world.trio.restart("agent-a")


_PREPARE: dict[str, Callable[[ChaosWorld], None]] = {"confirm": _resizes, "revert": _resizes, "evacuate": _loses_hosts}

SCENARIOS = [
    Scenario(f"kill-in-move:{act}", functools.wraps(kill_in_move)(functools.partial(kill_in_move, act=act)))
    for act in POINTS
] + [Scenario("dead-in-move:arrival", dead_at_an_arrival)]
