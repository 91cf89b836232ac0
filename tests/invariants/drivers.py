# SPDX-License-Identifier: Apache-2.0
"""What the fake hypervisors themselves have on record: the guests there are, and every spawn there ever was."""

from __future__ import annotations

import collections
import json
import pathlib
from collections.abc import Iterator

from tests.invariants.ledger import Ledger

JOURNAL = "journal"


def guests(instances_path: pathlib.Path) -> dict[str, dict[str, dict]]:
    """By host and uuid: the record that the driver keeps of a guest."""
    found: dict[str, dict[str, dict]] = {}
    for directory in sorted((instances_path / "fake").glob("*")):
        found[directory.name] = {}
        for path in directory.glob("*.json"):
            try:
                found[directory.name][path.stem] = json.loads(path.read_text())
            except (FileNotFoundError, ValueError):
                continue  # it is being written, or gone meanwhile
    return found


def spawns(instances_path: pathlib.Path) -> collections.Counter[tuple[str, int]]:
    """How often each instance was spawned at each attempt, on whatever host."""
    return collections.Counter(
        (uuid, int(attempt)) for what, uuid, attempt in _journal(instances_path) if what == "spawn"
    )


def no_spawn_is_repeated(instances_path: pathlib.Path) -> Iterator[str]:
    """I6, by the drivers' journals: at most one spawn per instance and attempt."""
    for (uuid, attempt), times in spawns(instances_path).items():
        if times > 1:
            yield f"{uuid} was spawned {times} times at attempt {attempt}"


def guests_fit(ledger: Ledger, instances_path: pathlib.Path) -> Iterator[str]:
    """I1, by the drivers' records: the guests that exist on a node have room there."""
    there = guests(instances_path)
    for node in ledger.nodes:
        here = [each for each in there.get(node["host"], {}).values() if each["node"] == node["hypervisor_hostname"]]
        for guest, total, reserved, ratio in (
            ("memory_mb", "memory_mb", "reserved_memory_mb", "ram_allocation_ratio"),
            ("disk_gb", "local_gb", "reserved_disk_gb", "disk_allocation_ratio"),
        ):
            used, most = sum(each[guest] for each in here), (node[total] - node[reserved]) * node[ratio]
            if used > most:
                yield f"{node['host']}: its guests have {used} of {guest}, there is room for {most:.0f}"


def _journal(instances_path: pathlib.Path) -> Iterator[list[str]]:
    for path in sorted((instances_path / JOURNAL).glob("*")):
        for line in path.read_text().splitlines():
            parts = line.split()
            if len(parts) == 3:
                yield parts
