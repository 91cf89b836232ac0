# SPDX-License-Identifier: Apache-2.0
"""A maintenance in waves, while conductors, agents and the broker are killed: it comes to its end, and loses nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.chaos.run import Scenario
from tests.chaos.world import HOSTS, ChaosWorld

NAME = "chaos"
WAVES = (("a1",), ("a2", "a3"), ("b1",))
GUESTS = 18


def _begin(world: ChaosWorld) -> list[str]:
    """Guests on all hosts, and a maintenance of four of them whose hook succeeds. Return the guests."""
    world.fence("off")
    for number, host in enumerate(HOSTS):
        world.boot_until_told(len(range(number, GUESTS, len(HOSTS))), availability_zone=f"nova:{host}")
    world.settle()
    uuids = [row["uuid"] for row in world.builds()]
    assert GUESTS == len(uuids) == world.count("active")
    asked = {"name": NAME, "waves": [list(each) for each in WAVES], "hook": "work", "moves_at_a_time": 3}
    world.trio.operator("create_maintenance", maintenance=asked)
    return uuids


def _shown(world: ChaosWorld) -> dict[str, Any]:
    return dict(world.trio.operator("show_maintenance", name=NAME))


def _statuses(world: ChaosWorld) -> list[str]:
    return [each["status"] for each in _shown(world)["hosts"]]


def _is_over(world: ChaosWorld) -> bool:
    return _shown(world)["maintenance"]["status"] == "ended"


def _ended_well(world: ChaosWorld, uuids: Sequence[str], began: int) -> None:
    """Every host had its hook, all take builds again, and all guests run."""
    world.until(lambda: _is_over(world), timeout_s=300)
    assert {"done"} == set(_statuses(world)), _shown(world)
    worked = [host for _order, host in world.fences()[began:]]
    assert {host for wave in WAVES for host in wave} == set(worked), worked
    disabled = [each for each in world.trio.operator("list_services") if each["status"] != "enabled"]
    assert [] == disabled
    world.settle()
    assert sorted(uuids) == sorted(row["uuid"] for row in world.builds() if row["vm_state"] == "active")
    world.measured["hooks"] = len(worked)
    records = world.trio.operator("list_migrations", filters={})
    world.measured["moves"] = sum(each["instance_uuid"] in uuids for each in records)


def _between_steps(world: ChaosWorld, hurt: Sequence[Callable[[], None]]) -> None:
    """Do each of these when the maintenance has come further than before."""
    for each in hurt:
        before = _statuses(world)
        world.until(lambda before=before: _statuses(world) != before or _is_over(world), timeout_s=120)  # type: ignore[misc]
        each()


def undisturbed(world: ChaosWorld, chance: random.Random) -> None:
    """Four hosts in three waves: each guest of theirs moves, most of them once."""
    began = len(world.fences())
    _ended_well(world, _begin(world), began)


def kills(world: ChaosWorld, chance: random.Random) -> None:
    """Conductors, agents, the scheduler and the broker die in random order, each between two steps."""
    began = len(world.fences())
    uuids = _begin(world)

    def daemon(name: str) -> Callable[[], None]:
        def die() -> None:
            world.trio.kill(name)
            world.trio.restart(name)

        return die

    def broker() -> None:
        world.broker.kill()
        world.broker.start()

    hurt = [*(daemon(each) for each in ("conductor", "conductor", "agent-a", "agent-b", "scheduler")), broker]
    chance.shuffle(hurt)
    _between_steps(world, hurt)
    _ended_well(world, uuids, began)
    world.measured["kills"] = len(hurt)


def failing_hook(world: ChaosWorld, chance: random.Random) -> None:
    """The hook fails: nothing more is emptied until an operator has mended it, and resumes."""
    began = len(world.fences())
    uuids = _begin(world)
    world.fence("fail")
    world.until(lambda: "failed" in _statuses(world), timeout_s=180)
    # Whatever had begun has ended.
    world.settle()
    assert ["failed", "waiting", "waiting", "waiting"] == _statuses(world)
    world.fence("off")
    world.trio.operator("pause_maintenance", name=NAME, paused=False)
    _ended_well(world, uuids, began)


SCENARIOS = [
    Scenario("maintenance:undisturbed", undisturbed),
    Scenario("maintenance:kills", kills),
    Scenario("maintenance:hook", failing_hook),
]
