# SPDX-License-Identifier: Apache-2.0
"""What the fake hypervisors themselves have on record: the guests there are, and every spawn there ever was."""

from __future__ import annotations

import collections
import dataclasses
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


@dataclasses.dataclass(frozen=True)
class Attempt:
    """Of an instance's build, or of one of its moves."""

    instance_uuid: str
    number: int
    migration: str | None = None

    def __str__(self) -> str:
        of = f" of migration {self.migration}" if self.migration else ""
        return f"at attempt {self.number}{of}"


@dataclasses.dataclass
class _Spawns:
    """``repeated``: those that did not find what the former had left destroyed."""

    hosts: list[str] = dataclasses.field(default_factory=list)
    repeated: int = 0


def no_spawn_is_repeated(instances_path: pathlib.Path) -> Iterator[str]:
    """I6, by the drivers' journals: at most one spawn for each attempt of a build, and of a move.

    A move's host that was interrupted is asked for the same attempt again: it may spawn again, there, once it has
    destroyed what it had spawned.
    """
    for attempt, found in _spawns(instances_path).items():
        if found.repeated or len(set(found.hosts)) > 1:
            where = ", ".join(found.hosts)
            yield f"{attempt.instance_uuid} was spawned {len(found.hosts)} times {attempt}: on {where}"


def _spawns(instances_path: pathlib.Path) -> dict[Attempt, _Spawns]:
    found: dict[Attempt, _Spawns] = collections.defaultdict(_Spawns)
    for host, lines in _journals(instances_path):
        #: Since their last destroy here.
        left: set[Attempt] = set()
        for what, uuid, number, migration in lines:
            if what == "destroy":
                left = {each for each in left if each.instance_uuid != uuid}
                continue
            attempt = Attempt(uuid, int(number), None if migration == "-" else migration)
            spawns = found[attempt]
            spawns.repeated += attempt in left or bool(spawns.hosts and not attempt.migration)
            spawns.hosts.append(host)
            left.add(attempt)
    return found


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


def _journals(instances_path: pathlib.Path) -> Iterator[tuple[str, list[list[str]]]]:
    """Of each host, in order; a line that is being written is left out."""
    for path in sorted((instances_path / JOURNAL).glob("*")):
        lines = [line.split() for line in path.read_text().splitlines()]
        yield path.name, [parts for parts in lines if len(parts) == 4]
