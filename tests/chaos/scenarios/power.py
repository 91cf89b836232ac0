# SPDX-License-Identifier: Apache-2.0
"""kill -9 of one process after the other, at each step of power tasks, also of those that take too long."""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable
from typing import Any

from fleet import errors, states
from tests.chaos.run import Scenario
from tests.chaos.scenarios.moves import points
from tests.chaos.world import NO_ANSWER, ChaosWorld

SWITCHED = 6
_STEPS = ("agent.power.before", "agent.power.after")
POINTS = {
    "switch": points(("power_accept", "power_done", "rebuild_accept"), *_STEPS),
    "overdue": points(["power_overdue"]),
}
_REBUILD = "rebuild_instance"
_POSSIBLE = {
    states.ACTIVE: ["stop_instance", "reboot_instance", "suspend_instance", "shelve_instance", _REBUILD],
    states.STOPPED: ["start_instance", _REBUILD],
    states.ERROR: [_REBUILD],
    states.VM_SUSPENDED: ["resume_instance"],
    states.SHELVED: ["unshelve_instance"],
}
_TROUBLE: dict[str, dict[str, Any]] = {"overdue": {"agent.power.before": {"action": "delay", "seconds": 3}}}


def kill_in_power(world: ChaosWorld, chance: random.Random, act: str) -> None:
    """Six instances get power tasks meanwhile. No task stays, and guests are as their rows say."""
    world.boot_until_told(SWITCHED)
    world.settle()
    deaths = {point: {"action": "exit", "times": 1, "skip": chance.randrange(2)} for point in POINTS[act]}
    world.arm({**deaths, **_TROUBLE.get(act, {})})
    with contextlib.suppress(AssertionError):
        world.until(lambda: _asked(world, chance, act) or all(map(world.fired, POINTS[act])), timeout_s=30)
    unmet = [point for point in POINTS[act] if not world.fired(point)]
    world.disarm()
    world.settle()
    assert not unmet, f"not met: {', '.join(unmet)}"


def _asked(world: ChaosWorld, chance: random.Random, act: str) -> bool:
    """Ask for something of every instance without a task. Always False."""
    for row in world.builds():
        if row["task_state"] is None:
            possible = _POSSIBLE.get(row["vm_state"], ["start_instance"])
            act_on = chance.choice(possible)
            with contextlib.suppress(*NO_ANSWER, errors.FleetError):
                world.trio.operator(act_on, name=row["uuid"], **({"request": {}} if act_on == _REBUILD else {}))
    if act == "overdue":
        tasks = ", ".join(f"'{each}'" for each in states.POWER_TASKS)
        world.sql(
            "UPDATE instances SET deadline = created_at, step_deadline = created_at"
            f" WHERE task_state IN ({tasks}) AND name LIKE :name",
            name=f"{world.name}%",
        )
    return False


def _of(act: str) -> Callable[[ChaosWorld, random.Random], None]:
    return functools.wraps(kill_in_power)(functools.partial(kill_in_power, act=act))


SCENARIOS = [Scenario(f"kill-in-power:{act}", _of(act)) for act in POINTS]
