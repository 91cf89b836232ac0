# SPDX-License-Identifier: Apache-2.0
"""Guests stop or are lost, while their agent runs and while it is down. The ledger shows it."""

from __future__ import annotations

import functools
import json
import pathlib
import random

from fleet import states
from fleet.failpoints import names
from tests.chaos.run import Scenario
from tests.chaos.world import ChaosWorld

BUILDS = 12
HURT = 4


def killed(world: ChaosWorld, chance: random.Random) -> None:
    """The processes of four guests end under live agents. Two audits later their rows and ``server list`` show it."""
    _boots(world)
    hurt = chance.sample([row["uuid"] for row in world.builds()], HURT)
    for uuid in hurt:
        path = _record(world, uuid)
        record = json.loads(path.read_text())
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps({**record, "power_state": states.CRASHED}))
        beside.replace(path)
    _told(world, hurt, states.CRASHED, "crashed")


def killed_twice(world: ChaosWorld, chance: random.Random, point: str) -> None:
    """The conductor dies before or after it records the stopped guests; each stop is recorded once all the same."""
    world.arm({point: {"action": "exit", "times": 1}})
    killed(world, chance)
    assert world.fired(point)


def lost(world: ChaosWorld, chance: random.Random) -> None:
    """An agent is killed and some of its guests lose their disk. After its restart their rows show that."""
    _boots(world)
    mine = [row["uuid"] for row in world.builds() if row["host"].startswith("a")]
    hurt = chance.sample(mine, min(HURT, len(mine)))
    world.trio.kill("agent-a")
    for uuid in hurt:
        _record(world, uuid).unlink()
    world.trio.restart("agent-a")
    world.wait_until_up()
    _told(world, hurt, states.NOSTATE, "gone")


def _boots(world: ChaosWorld) -> None:
    world.boot_until_told(BUILDS)
    world.settle()
    assert world.count("active") == BUILDS


def _record(world: ChaosWorld, uuid: str) -> pathlib.Path:
    """Where the driver keeps a guest."""
    (path,) = (world.trio.instances_path / "fake").glob(f"*/{uuid}.json")
    return path


def _told(world: ChaosWorld, hurt: list[str], found: int, name: str) -> None:
    def shown() -> bool:
        rows = {row["uuid"]: row["power_state"] for row in world.builds()}
        return all(rows[uuid] == (found if uuid in hurt else states.RUNNING) for uuid in rows)

    world.until(shown)
    assert world.count("active") == BUILDS, "a guest that does not run is no reason to change its instance"
    for uuid in hurt:
        events = world.trio.operator("show_instance", name=uuid)["events"]
        assert [name] == [each["result"] for each in events if each["event"] == "power"]
    assert set(hurt) <= {each["uuid"] for each in world.trio.operator("examine")["down"]}


SCENARIOS = [
    Scenario("guests:killed", killed),
    Scenario("guests:lost-while-away", lost),
    *(
        Scenario(f"guests:{point}", functools.wraps(killed_twice)(functools.partial(killed_twice, point=point)))
        for point in names.GUEST_NAMES
    ),
]
