# SPDX-License-Identifier: Apache-2.0
"""kill -9 of one process after the other, at each step of the life of volumes, including failing ones."""

from __future__ import annotations

import contextlib
import functools
import json
import pathlib
import random
from collections.abc import Callable, Sequence
from typing import Any

from oslo_utils import units

from fleet import errors
from fleet.failpoints.names import AFTER_COMMIT, BEFORE_COMMIT
from tests.chaos.run import Scenario
from tests.chaos.world import NO_ANSWER, World
from tests.invariants import storage

POOLS = ("p", "q")
TOO_LARGE = 2**20
_CONFIG = """\
[DEFAULT]
host = disks
enabled_backends = files
volume_state_path = {directory}/state
backend_stats_polling_interval = 3
[files]
volume_driver = directory
directory_pools = {pools}
"""


def _points(transactions: Sequence[str], *steps: str) -> list[str]:
    names = [f"conductor.volume_{name}.{when}" for name in transactions for when in (BEFORE_COMMIT, AFTER_COMMIT)]
    return [*names, *steps]


POINTS = {
    "create": _points(("accept", "take", "claim", "done"), "agent.volume.before", "agent.volume.after"),
    "extend": _points(("extend", "done"), "agent.extend.before", "agent.extend.after"),
    "delete": _points(("delete", "done")),
    "fail": _points(["fail"]),
    "refuse": _points(["refuse"]),
    "overdue": _points(["overdue"]),
}
#: What must go wrong, so that a volume gets there.
_TROUBLE: dict[str, dict[str, Any]] = {
    "fail": {"agent.volume.before": {"action": "raise"}},
    "overdue": {"agent.volume.before": {"action": "delay", "seconds": 5}},
}


def kill_in_volume(world: World, chance: random.Random, act: str) -> None:
    """A process dies at each step of volumes on real files. Every volume ends; ledger, agent and files agree."""
    directory = _serve(world)
    if act in ("extend", "delete"):
        world.until(lambda: len(_create(world, 6)) == 6)
        world.until(lambda: _settled(world), timeout_s=60)
    deaths = {point: {"action": "exit", "times": 1, "skip": chance.randrange(2)} for point in POINTS[act]}
    world.arm({**deaths, **_TROUBLE.get(act, {})})
    with contextlib.suppress(AssertionError):
        world.until(lambda: _asked(world, act) or all(map(world.fired, POINTS[act])), timeout_s=40)
    unmet = [point for point in POINTS[act] if not world.fired(point)]
    world.disarm()
    world.until(lambda: _settled(world), timeout_s=90)
    _agree(world, directory)
    for row in _volumes(world):
        _order(world, "delete_volume", name=row["uuid"])
    world.until(lambda: not _volumes(world), timeout_s=60)
    _agree(world, directory)
    assert not unmet, f"not met: {', '.join(unmet)}"


def _serve(world: World) -> pathlib.Path:
    directory = world.directory / "disks"
    directory.mkdir(exist_ok=True)
    pools = ",".join(f"{pool}:{directory}/{pool}" for pool in POOLS)
    config = directory / "volume.conf"
    config.write_text(_CONFIG.format(directory=directory, pools=pools))
    world.start("disks", "fleet-volume", "--config-file", str(config))
    world.until(lambda: [each["state"] for each in world.trio.operator("list_pools")] == ["up", "up"], timeout_s=60)
    return directory


def _volumes(world: World) -> list[Any]:
    return [row for row in world.ledger().volumes if not row["deleted"]]


def _settled(world: World) -> bool:
    return not any(row["step"] for row in _volumes(world))


def _create(world: World, count: int, size: int = 1) -> list[Any]:
    _order(world, "create_volumes", request={"name": world.name, "size": size, "count": count})
    return _volumes(world)


def _order(world: World, method: str, **arguments: Any) -> None:
    with contextlib.suppress(*NO_ANSWER, errors.FleetError):
        world.trio.operator_at_once(method, **arguments)


def _asked(world: World, act: str) -> bool:
    """Request what leads to the points of ``act``. Always False."""
    _ASK[act](world)
    return False


def _extend(world: World) -> None:
    for row in _volumes(world):
        if row["status"] == "available":
            _order(world, "extend_volume", name=row["uuid"], size=row["size_gb"] + 1)


def _delete(world: World) -> None:
    for row in _volumes(world)[:2]:
        _order(world, "delete_volume", name=row["uuid"])
    _create(world, 2)


def _bring_forward(world: World) -> None:
    """The deadlines of volumes that are being made, rather than wait for them."""
    _create(world, 2)
    world.sql(
        "UPDATE volumes SET deadline = created_at, step_deadline = created_at"
        " WHERE status = 'creating' AND step = 'working'"
    )


_ASK: dict[str, Callable[[World], object]] = {
    "create": lambda world: _create(world, 2),
    "extend": _extend,
    "delete": _delete,
    "fail": lambda world: _create(world, 2),
    "refuse": lambda world: _create(world, 2, TOO_LARGE),
    "overdue": _bring_forward,
}


def _agree(world: World, directory: pathlib.Path) -> None:
    """:raises AssertionError: ledger, agent and files do not agree within two reports"""
    wrong: list[str] = []

    def agreed() -> bool:
        ledger = world.ledger()
        there = {f"disks@files#{each}": _files(directory / each) for each in POOLS}
        wrong[:] = [
            *storage.pools_count_their_volumes(ledger),
            *storage.volumes_are_where_the_ledger_says(ledger, there),
        ]
        return not wrong

    try:
        world.until(agreed, timeout_s=20)
    except AssertionError:
        raise AssertionError(json.dumps(wrong)) from None


def _files(pool: pathlib.Path) -> dict[str, int]:
    return {path.name.removeprefix("volume-"): path.stat().st_size // units.Gi for path in pool.iterdir()}


SCENARIOS = [
    Scenario(f"kill-in-volume:{act}", functools.wraps(kill_in_volume)(functools.partial(kill_in_volume, act=act)))
    for act in POINTS
]
