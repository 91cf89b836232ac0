# SPDX-License-Identifier: Apache-2.0
"""Broker and database go away under volumes; their disks are full, read-only, smaller than before, or report nonsense."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from oslo_utils import units

from tests.chaos.disks import HOST, Disks
from tests.chaos.run import Scenario
from tests.chaos.world import ChaosWorld

_VOLUME = [f"{os.path.dirname(sys.executable)}/fleet-volume"]
#: Waits while a file exists, with a part of the copy written.
_SLOW_CP = """\
#!/bin/sh
for last; do :; done
while [ -e {hold} ]; do printf begun > "$last"; sleep 0.1; done
exec {cp} "$@"
"""
#: Capabilities of a pool that no storage has. JSON has neither NaN nor infinity, Python's has both.
NONSENSE: list[dict[str, Any]] = [
    {"total_capacity_gb": -5},
    {"total_capacity_gb": float("nan")},
    {"free_capacity_gb": float("inf")},
    {"total_capacity_gb": 1e307, "reserved_percentage": 20},
    {"free_capacity_gb": "plenty"},
    {"provisioned_capacity_gb": -1},
    {"provisioned_capacity_gb": [1]},
    {"reserved_percentage": 101},
    {"reserved_percentage": "a tenth"},
    {"max_over_subscription_ratio": "0.5"},
    {"max_over_subscription_ratio": {}},
    {"pool_name": ""},
    {"pool_name": None},
]


def broker_outage(world: ChaosWorld, chance: random.Random) -> None:
    """No broker for some seconds, with volumes at every step. Each ends; ledger, agent and files agree."""
    disks = Disks(world, ("p", "q"))
    disks.start()
    disks.made(6)
    disks.use()
    time.sleep(chance.uniform(0, 0.5))
    world.broker.stop()
    time.sleep(8)
    world.broker.start()
    world.until(disks.is_up, timeout_s=60)
    disks.use()
    disks.end()


def database_outage(world: ChaosWorld, chance: random.Random) -> None:
    """The same without a database."""
    disks = Disks(world, ("p", "q"))
    disks.start()
    disks.made(6)
    disks.use()
    time.sleep(chance.uniform(0, 0.5))
    world.database.stop()
    time.sleep(8)
    world.database.start()
    world.until(disks.is_up, timeout_s=60)
    disks.use()
    disks.end()


def killed_while_copying(world: ChaosWorld, chance: random.Random) -> None:
    """kill -9 of the agent in the middle of a copy. Its next life makes the whole copy, and leaves no part."""
    disks = Disks(world, ("p",))
    tools, hold = disks.directory / "tools", disks.directory / "hold"
    tools.mkdir(exist_ok=True)
    (tools / "cp").write_text(_SLOW_CP.format(hold=hold, cp=shutil.which("cp")))
    (tools / "cp").chmod(0o755)
    disks.start(command=["env", f"PATH={tools}:{os.environ['PATH']}", *_VOLUME])
    (source,) = disks.made(1)
    data = chance.randbytes(8 * units.Mi)
    _write(disks, source, data)
    hold.touch()
    disks.create(1, source=source["uuid"], name="copy")
    world.until(disks.part_of_copy)
    world.trio.kill("disks")
    hold.unlink()
    world.trio.restart("disks")
    disks.settle()
    (copy,) = [row for row in disks.with_status("available") if row["name"] == "copy"]
    with (disks.directory / "p" / f"volume-{copy['uuid']}").open("rb") as file:
        assert data == file.read(len(data)), "the copy has other data than its source"
    disks.end()


def full(world: ChaosWorld, chance: random.Random) -> None:
    """A file system fills up in the middle of a copy. The copy fails with the reason, and leaves room for others."""
    disks = Disks(world, ("p",))
    with _tmpfs(disks, "p", "64m") as mounted:
        if not mounted:
            return
        disks.start(more="max_over_subscription_ratio = 1000")
        (source,) = disks.made(1)
        _write(disks, source, chance.randbytes(40 * units.Mi))
        disks.create(1, source=source["uuid"], name="copy")
        disks.settle()
        (copy,) = disks.with_status("error")
        assert "No space left" in copy["failure"]["message"], copy["failure"]
        disks.made(3)
        disks.end()
        world.trio.forget("disks")


def limited(world: ChaosWorld, chance: random.Random) -> None:
    """The agent may write no file of more than 2 GiB. Larger volumes fail, and a volume that cannot grow keeps its size."""
    disks = Disks(world, ("p",))
    limit = f"import os, resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({2 * units.Gi},) * 2); "
    run = f"import sys; os.execv({_VOLUME[0]!r}, [{_VOLUME[0]!r}, *sys.argv[1:]])"
    disks.start(command=[sys.executable, "-c", limit + run])
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY, "only the agent is to be limited"
    disks.made(2)
    disks.create(1, size=3)
    for row in disks.with_status("available"):
        disks.order("extend_volume", name=row["uuid"], size=4)
    disks.settle()
    sizes = sorted((row["status"], row["size_gb"], bool(row["failure"])) for row in disks.volumes())
    assert [("available", 1, True), ("available", 1, True), ("error", 3, True)] == sizes, sizes
    disks.end()


def read_only(world: ChaosWorld, chance: random.Random) -> None:
    """A pool cannot be written for a while: its backend is down, and does all that was ordered when it can again."""
    disks = Disks(world, ("p",))
    with _tmpfs(disks, "p", "64m") as mounted:
        if not mounted:
            return
        disks.start(more="max_over_subscription_ratio = 1000")
        disks.made(6)
        _mount("remount,ro", disks, "p")
        disks.use()
        world.until(lambda: not disks.is_up())
        disks.create(2)
        _mount("remount,rw", disks, "p")
        world.until(disks.is_up)
        disks.create(2)
        disks.end()
        world.trio.forget("disks")


def shrinks(world: ChaosWorld, chance: random.Random) -> None:
    """A pool becomes smaller than what it has promised, while volumes are made. It promises no more until it has room."""
    disks = _unruly(world, {"p": {"total_capacity_gb": 30, "free_capacity_gb": 30}})
    name = f"{HOST}#p"
    disks.made(12)
    disks.create(12)
    world.shrunk.add(name)
    _report(disks, {"p": {"total_capacity_gb": 10, "free_capacity_gb": 10}})
    # On a fast machine all volumes are made before the agent reports again.
    world.until(lambda: disks.reported()[name]["total_capacity_gb"] == 10)
    disks.settle()
    promised = disks.reported()[name]["allocated_capacity_gb"]
    assert promised >= 12
    disks.create(5)
    disks.settle()
    assert promised == disks.reported()[name]["allocated_capacity_gb"], "a pool that is too small has promised more"
    for row in disks.with_status("available")[: promised - 5]:
        disks.order("delete_volume", name=row["uuid"])
    world.until(lambda: disks.reported()[name]["allocated_capacity_gb"] == 5, timeout_s=60)
    world.shrunk.clear()
    disks.create(10)
    disks.settle()
    assert 10 == disks.reported()[name]["allocated_capacity_gb"]
    disks.end()


def nonsense(world: ChaosWorld, chance: random.Random) -> None:
    """A pool reports what no storage has. The report is refused, and the other pool of the backend is not disturbed."""
    sane = {"total_capacity_gb": 30, "free_capacity_gb": 30}
    disks = _unruly(world, {"p": sane, "q": sane})
    disks.made(4)
    for report in NONSENSE:
        before = len(world.trio.log("disks"))
        _report(disks, {"p": {**sane, **report}, "q": sane})
        world.until(lambda before=before: len(world.trio.log("disks")) > before)
        made = len(disks.with_status("available"))
        disks.create(1)
        disks.settle()
        assert len(disks.with_status("available")) == made + 1, f"no volume is made after {report}"
        pool = disks.reported()[f"{HOST}#p"]
        assert 30 == pool["total_capacity_gb"], f"{report} has changed the pool: {pool}"
    assert world.trio.is_running("conductor")
    assert world.trio.is_running("disks")
    _report(disks, {"p": sane, "q": sane})
    disks.end()


def _unruly(world: ChaosWorld, report: dict[str, Any]) -> Disks:
    """A backend that reports what it is told."""
    disks = Disks(world, tuple(report))
    _report(disks, report)
    disks.start("unruly_volumes.UnrulyVolumes", "max_over_subscription_ratio = 1")
    return disks


def _report(disks: Disks, report: dict[str, Any]) -> None:
    beside = disks.directory / "unruly.new"
    beside.write_text(json.dumps(report))
    beside.replace(disks.directory / "unruly.json")


def _write(disks: Disks, row: Any, data: bytes) -> None:
    with (disks.directory / row["pool"] / f"volume-{row['uuid']}").open("r+b") as file:
        file.write(data)


@contextlib.contextmanager
def _tmpfs(disks: Disks, pool: str, size: str) -> Iterator[bool]:
    """A file system of its own for a pool; False where this user may not mount one."""
    if not _mount(f"size={size}", disks, pool, "-t", "tmpfs", "tmpfs"):
        print("    NOT PLAYED: mounting a tmpfs is not permitted here", flush=True)
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "--lazy", str(disks.directory / pool)], check=True)


def _mount(options: str, disks: Disks, pool: str, *what: str) -> bool:
    command = ["mount", "-o", options, *what, str(disks.directory / pool)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


_ALL: list[tuple[str, Callable[[ChaosWorld, random.Random], None], bool]] = [
    ("volume-outage:broker", broker_outage, False),
    ("volume-outage:database", database_outage, False),
    ("volume-disk:killed-while-copying", killed_while_copying, True),
    ("volume-disk:full", full, False),
    ("volume-disk:limited", limited, False),
    ("volume-disk:read-only", read_only, False),
    ("volume-pool:shrinks", shrinks, False),
    ("volume-pool:nonsense", nonsense, True),
]
SCENARIOS = [Scenario(name, hurt, short) for name, hurt, short in _ALL]
