# SPDX-License-Identifier: Apache-2.0
"""kill -9 of one process after the other, at each step of the life of volumes, including failing ones."""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

from fleet.failpoints.names import AFTER_COMMIT, BEFORE_COMMIT
from tests.chaos.disks import HOST, Disks
from tests.chaos.run import Scenario
from tests.chaos.world import ChaosWorld

POOLS = ("p", "q")
TOO_LARGE = 2**20


def _points(transactions: Sequence[str], *steps: str) -> list[str]:
    names = [f"conductor.volume_{name}.{when}" for name in transactions for when in (BEFORE_COMMIT, AFTER_COMMIT)]
    return [*names, *(f"agent.{step}.{when}" for step in steps for when in ("before", "after"))]


POINTS = {
    "create": _points(("accept", "take", "claim", "done"), "volume"),
    "extend": _points(("extend", "done"), "extend"),
    "migrate": _points(("migrate", "take", "claim", "done"), "migrate", "leave"),
    "retype": _points(("retype", "take", "claim", "done"), "retype"),
    "manage": _points(("accept", "claim", "measure", "done"), "manage"),
    "unmanage": _points(("unmanage", "done"), "unmanage"),
    "snapshot": [f"conductor.snapshot.{when}" for when in (BEFORE_COMMIT, AFTER_COMMIT)] + _points(("done",), "volume"),
    "delete": _points(("delete", "done")),
    "fail": _points(["fail"]),
    "refuse": _points(["refuse"]),
    "overdue": _points(["overdue"]),
}
#: Conductors pass these only when they hand out again what a dead one has left, so they die there at the first pass.
_RARE = {"create": ("conductor.volume_take.before_commit", "conductor.volume_take.after_commit")}
#: Acts on volumes that are there.
_ON_VOLUMES = ("extend", "delete", "migrate", "retype", "unmanage", "snapshot")
#: What must go wrong, so that a volume gets there.
_TROUBLE: dict[str, dict[str, Any]] = {
    "fail": {"agent.volume.before": {"action": "raise"}},
    "overdue": {"agent.volume.before": {"action": "delay", "seconds": 5}},
}


def kill_in_volume(world: ChaosWorld, chance: random.Random, act: str) -> None:
    """A process dies at each step of volumes on real files. Every volume ends; ledger, agent and files agree."""
    disks = Disks(world, POOLS)
    disks.start()
    if act in _ON_VOLUMES:
        disks.made(6)
    skips = {point: 0 if point in _RARE.get(act, ()) else chance.randrange(2) for point in POINTS[act]}
    deaths = {point: {"action": "exit", "times": 1, "skip": skip} for point, skip in skips.items()}
    world.arm({**deaths, **_TROUBLE.get(act, {})})
    with contextlib.suppress(AssertionError):
        world.until(lambda: _asked(disks, act) or all(map(world.fired, POINTS[act])), timeout_s=40)
    unmet = [point for point in POINTS[act] if not world.fired(point)]
    world.disarm()
    disks.settle()
    disks.remove_files_of_users()
    disks.end()
    assert not unmet, f"not met: {', '.join(unmet)}"


def _asked(disks: Disks, act: str) -> bool:
    """Request what leads to the points of ``act``. Always False."""
    _ASK[act](disks)
    return False


def _extend(disks: Disks) -> None:
    for row in disks.with_status("available"):
        disks.order("extend_volume", name=row["uuid"], size=row["size_gb"] + 1)


def _migrate(disks: Disks) -> None:
    for row in disks.with_status("available"):
        if row["step"] is None:
            (other,) = set(POOLS) - {row["pool"]}
            disks.order("migrate_volume", name=row["uuid"], host=f"{HOST}#{other}")


def _retype(disks: Disks) -> None:
    disks.order("create_volume_type", volume_type={"name": "any"})
    for row in disks.with_status("available"):
        disks.order("retype_volume", name=row["uuid"], volume_type="any")


def _manage(disks: Disks) -> None:
    for _each in range(2):
        disks.order("manage_volume", request={"host": f"{HOST}#p", "reference": disks.file_of_a_user("p").name})


def _unmanage(disks: Disks) -> None:
    for row in disks.with_status("available")[:2]:
        disks.order("unmanage_volume", name=row["uuid"])
    disks.create(2)


def _snapshot(disks: Disks) -> None:
    for row in disks.with_status("available")[:2]:
        disks.order("create_snapshot", volume=row["uuid"])


def _delete(disks: Disks) -> None:
    for row in disks.volumes()[:2]:
        disks.order("delete_volume", name=row["uuid"])
    disks.create(2)


def _bring_forward(disks: Disks) -> None:
    """The deadlines of volumes that are being made, rather than wait for them."""
    disks.create(2)
    disks.world.sql(
        "UPDATE volumes SET deadline = created_at, step_deadline = created_at"
        " WHERE status = 'creating' AND step = 'working'"
    )


_ASK: dict[str, Callable[[Disks], object]] = {
    "create": lambda disks: disks.create(2),
    "extend": _extend,
    "migrate": _migrate,
    "retype": _retype,
    "manage": _manage,
    "unmanage": _unmanage,
    "snapshot": _snapshot,
    "delete": _delete,
    "fail": lambda disks: disks.create(2),
    "refuse": lambda disks: disks.create(2, TOO_LARGE),
    "overdue": _bring_forward,
}


SCENARIOS = [
    Scenario(f"kill-in-volume:{act}", functools.wraps(kill_in_volume)(functools.partial(kill_in_volume, act=act)))
    for act in POINTS
]
