# SPDX-License-Identifier: Apache-2.0
"""kill -9 of one process after the other, at each step in which guests get volumes and give them back, also late ones, and
in which they are built and moved with volumes.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable
from typing import Any

from fleet import errors
from tests.chaos.disks import Disks
from tests.chaos.run import Scenario
from tests.chaos.scenarios.moves import points
from tests.chaos.world import NO_ANSWER, ChaosWorld
from tests.invariants import drivers, storage

VOLUMES = GUESTS = 4
_STEPS = tuple(f"agent.{step}.{when}" for step in ("attach", "detach") for when in ("before", "after"))
POINTS = {
    "change": points(("attach_accept", "attach_detach", "attach_done"), *_STEPS),
    "overdue": points(["attach_overdue"]),
    "move": points(
        ("move_accept", "move_claim", "move_advance", "move_confirm", "move_revert"),
        *("agent.move_claim.after", "agent.move.before", "agent.move.after"),
    ),
    "build": points(("accept", "claim", "finish", "reschedule"), "agent.volumes.after", "agent.spawn.after"),
}
_SLOW = {"action": "delay", "seconds": 3}
_TROUBLE: dict[str, dict[str, Any]] = {"overdue": {"agent.attach.before": _SLOW, "agent.detach.before": _SLOW}}


def kill_in_attachment(world: ChaosWorld, chance: random.Random, act: str) -> None:
    """Four volumes come and go at four guests meanwhile. Each ends somewhere; ledger and drivers agree, to the end."""
    disks = Disks(world, ("p",))
    disks.start()
    disks.made(VOLUMES)
    if act == "build":
        world.unruly({"host": "a*", "do": "fail"})
    else:
        world.boot_until_told(GUESTS)
        world.settle()
    if act == "move":
        world.until(lambda: _asked(disks, chance, act) or len(disks.with_status("in-use")) == VOLUMES)
    asked = {"build": _built, "move": _moved}.get(act) or functools.partial(_asked, act=act)
    deaths = {point: {"action": "exit", "times": 1, "skip": chance.randrange(2)} for point in POINTS[act]}
    world.arm({**deaths, **_TROUBLE.get(act, {})})
    with contextlib.suppress(AssertionError):
        world.until(lambda: asked(disks, chance) or all(map(world.fired, POINTS[act])), timeout_s=120)
    unmet = [point for point in POINTS[act] if not world.fired(point)]
    world.disarm()
    world.unruly()
    world.settle()
    world.until(lambda: not _disagreements(world), timeout_s=90)
    world.terminate([row["uuid"] for row in world.builds()])
    world.settle()
    world.until(lambda: {"available"} == {row["status"] for row in disks.volumes()}, timeout_s=60)
    disks.end()
    assert not unmet, f"not met: {', '.join(unmet)}"


def _built(disks: Disks, chance: random.Random) -> bool:
    """Build with what is available, in one or two guests; delete those that run. Always False."""
    volumes = [{"volume_id": row["uuid"]} for row in disks.with_status("available")]
    parts = [part for part in (volumes[: chance.randrange(3)], volumes[2:]) if part]
    for part in parts:
        with contextlib.suppress(errors.FleetError, *NO_ANSWER):
            disks.world.boot(block_device_mapping=part)
    disks.world.terminate([row["uuid"] for row in disks.world.builds() if row["vm_state"] != "building"])
    return False


def _moved(disks: Disks, chance: random.Random) -> bool:
    """Move the guests with their volumes; keep half of the moves, revert the others. Always False."""
    for row in disks.world.builds():
        if row["vm_state"] == "active" and row["task_state"] is None:
            disks.order("migrate_instance", name=row["uuid"])
        elif row["vm_state"] == "resized":
            disks.order(chance.choice(("confirm_resize", "revert_resize")), name=row["uuid"])
    return False


def _asked(disks: Disks, chance: random.Random, act: str) -> bool:
    """Attach what is available; detach what is in use, but for moves. Always False."""
    guests = [row["uuid"] for row in disks.world.builds()]
    used = {row["volume_uuid"]: row["instance_uuid"] for row in disks.world.ledger().attachments}
    for row in disks.with_status("available"):
        disks.order("attach_volume", name=chance.choice(guests), volume=row["uuid"])
    for row in disks.with_status("in-use"):
        if row["uuid"] in used and act != "move":
            disks.order("detach_volume", name=used[row["uuid"]], volume=row["uuid"])
    if act == "overdue":
        disks.world.sql(
            "UPDATE volume_attachments SET deadline = created_at, step_deadline = created_at WHERE deadline IS NOT NULL"
        )
    return False


def _disagreements(world: ChaosWorld) -> list[str]:
    """Of ledger and drivers. They name what is not at rest, too."""
    ledger = world.ledger()
    there = drivers.guests(world.trio.instances_path)
    attached = {
        uuid: list(guest["volumes"]) for here in there.values() for uuid, guest in here.items() if guest.get("volumes")
    }
    return [
        *storage.attachments_agree_with_volumes(ledger),
        *storage.guests_have_their_volumes(ledger, attached),
    ]


def _of(act: str) -> Callable[[ChaosWorld, random.Random], None]:
    return functools.wraps(kill_in_attachment)(functools.partial(kill_in_attachment, act=act))


SCENARIOS = [Scenario(f"kill-in-attachment:{act}", _of(act)) for act in POINTS]
