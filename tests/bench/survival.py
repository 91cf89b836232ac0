# SPDX-License-Identifier: Apache-2.0
"""Proofs about lost hosts and racks, on generated and on published fleets, each checked by numbers of its own.

``FLEET_BENCH_TOPOLOGY`` names the directory of a data set with hosts, racks and sequences of requests (hosts.csv, racks.csv,
requests-c1.csv …), ``FLEET_BENCH_TRACE`` a trace of requests, as for ``packing``; without them only generated fleets are
lost. No "safe" may be wrong: the part ends with status 1 otherwise.
"""

from __future__ import annotations

import collections
import os
import pathlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fleet.db.feed.feed import Changes
from fleet.objects import numa
from fleet.objects.survival import Loss
from fleet.objects.whatif import Demand
from scheduler.compute.planning import survival
from tests import factories
from tests.bench import figures, packing, snapshots, traces
from tests.bench.snapshots import Guest, Snapshot
from tests.configuration import of_scheduler

DIRECTORY = "FLEET_BENCH_TOPOLOGY"
_SEQUENCES = ("c1", "c2", "c3")
_SHARES = (0.8, 0.9, 0.95)
#: How often the requests come for all racks: the hosts are then as full as those of one sequence.
_TIMES = 3
_MB = 1024


def run() -> None:
    wrong = 0
    for snapshot in _snapshots():
        racks = collections.defaultdict(list)
        for host, rack in snapshot.racks.items():
            racks[rack].append(host)
        wrong += lose(snapshot, "hosts", [Loss(host, [host]) for host in snapshot.cells])
        wrong += lose(snapshot, "racks", [Loss(f"rack={rack}", hosts) for rack, hosts in racks.items()])
    if wrong:
        sys.exit(1)


def _snapshots() -> Iterator[Snapshot]:
    for share in _SHARES:
        for seed in range(3):
            yield snapshots.generated(seed, 300, share)
    if os.environ.get(packing.TRACE):
        for share in _SHARES:
            yield traces.at_its_peak(share)
    if os.environ.get(DIRECTORY):
        for sequence in _SEQUENCES:
            yield snapshots.published(pathlib.Path(os.environ[DIRECTORY]), sequence)
        yield snapshots.all_racks(pathlib.Path(os.environ[DIRECTORY]), _SEQUENCES, _TIMES)


def lose(snapshot: Snapshot, what: str, losses: Sequence[Loss], limit_s: float = 10.0) -> int:
    """Prove each loss and check the proof; report, and return how many are wrong."""
    requests = {factories.uuid(int(guest.name)): _demand(guest, snapshot) for guest, _host, _cells in snapshot.placed}
    began = time.perf_counter()
    report = survival.run(of_scheduler(), state(snapshot), losses, lambda _uuids: requests, lambda _name: None, limit_s)
    took_s = time.perf_counter() - began
    names = {factories.uuid(int(guest.name)): guest.name for guest, _host, _cells in snapshot.placed}
    verdicts: collections.Counter[str] = collections.Counter()
    wrong = alone = 0
    by_sums = sum(snapshots.fits_in_sum(snapshot, frozenset(loss.hosts)) for loss in losses)
    for loss, proof in zip(report.losses, report.proofs, strict=True):
        verdict, lost = proof.verdict.value, frozenset(loss.hosts)
        verdicts[verdict] += 1
        nowhere = snapshots.alone_nowhere(snapshot, lost) if verdict != "safe" or len(lost) == 1 else []
        alone += bool(nowhere)
        plan = {names[uuid]: host for uuid, host in proof.plan.items()}
        found = snapshots.checked(snapshot, lost, plan) if verdict == "safe" else []
        found += ["a guest fits nowhere"] * (verdict == "safe" and bool(nowhere))
        if found:
            wrong += 1
            print(f"WRONG: {snapshot.name}, {loss.name}: {found[:3]}", file=sys.stderr)
    figures.report(
        "survival",
        snapshot=snapshot.name,
        lost=what,
        hosts=len(snapshot.cells),
        guests=len(snapshot.placed),
        refused_when_filled=snapshot.refused,
        free_vcpus=round(snapshot.free_share, 4),
        losses=len(losses),
        safe_by_sums=by_sums,
        safe=verdicts["safe"],
        unsafe=verdicts["unsafe"],
        of_those_a_guest_alone=alone,
        not_proved=verdicts["not proved"],
        wrong=wrong,
        proved_s=round(report.proved_s, 3),
        seconds=round(took_s, 3),
    )
    return wrong


def state(snapshot: Snapshot) -> Changes:
    """The snapshot as the change feed would report it."""
    left = snapshot.left()
    nodes = [row_of(host, cells, left[host]) for host, cells in snapshot.cells.items()]
    rows = [factories.PlacedInstance(factories.uuid(int(guest.name)), host, host) for guest, host, _ in snapshot.placed]
    return factories.changes(nodes, instances=rows)


def row_of(host: str, cells: snapshots.Cells, left: snapshots.Cells) -> Any:
    """Return the row of a host. :param left: what is free of its cells"""
    used = [[total - free for total, free in zip(*each, strict=True)] for each in zip(cells, left, strict=True)]
    return factories.node(
        host,
        vcpus=sum(cell[0] for cell in cells),
        vcpus_used=sum(cell[0] for cell in used),
        memory_mb=sum(cell[1] for cell in cells) * _MB,
        memory_mb_used=sum(cell[1] for cell in used) * _MB,
        local_gb=100_000,
        numa_topology=_topology(cells, used) if len(cells) > 1 else None,
    )


def _topology(cells: Sequence[Sequence[int]], used: Sequence[Sequence[int]]) -> dict[str, Any]:
    made, first = [], 0
    for number, ((vcpus, gigabytes), (vcpus_used, gigabytes_used)) in enumerate(zip(cells, used, strict=True)):
        cpus = frozenset(range(first, first + vcpus))
        first += vcpus
        made.append(
            numa.HostCell(number, cpus, gigabytes * _MB, cpu_usage=vcpus_used, memory_usage=gigabytes_used * _MB)
        )
    return numa.HostTopology(tuple(made)).to_wire()


def _demand(guest: Guest, snapshot: Snapshot) -> Demand:
    in_cells = any(len(cells) > 1 for cells in snapshot.cells.values())
    return Demand(request_spec(guest, factories.uuid(int(guest.name)), in_cells), _group(guest, snapshot), [None])


def request_spec(guest: Guest, uuid: str, in_cells: bool) -> dict[str, Any]:
    """Return the request for one guest. :param in_cells: it takes equal parts of its cells"""
    properties: dict[str, Any] = {"uuid": uuid}
    if in_cells:
        properties["numa_topology"] = numa.InstanceTopology(
            tuple(
                numa.InstanceCell(
                    number,
                    frozenset(range(number * guest.vcpus, (number + 1) * guest.vcpus)),
                    guest.memory_gb * _MB,
                )
                for number in range(guest.cells)
            )
        ).to_wire()
    return {
        "instance_type": {"vcpus": guest.vcpus * guest.cells, "memory_mb": guest.memory_gb * guest.cells * _MB},
        "num_instances": 1,
        "instance_uuids": [uuid],
        "instance_properties": properties,
    }


_MEMBERS: dict[int, dict[str, list[tuple[str, str]]]] = {}


def _group(guest: Guest, snapshot: Snapshot) -> Mapping[str, Any]:
    if guest.group is None:
        return {}
    if id(snapshot) not in _MEMBERS:
        _MEMBERS.clear()
        found = _MEMBERS.setdefault(id(snapshot), collections.defaultdict(list))
        for each, host, _cells in snapshot.placed:
            if each.group is not None:
                found[each.group].append((factories.uuid(int(each.name)), host))
    members = _MEMBERS[id(snapshot)][guest.group]
    return {
        "group_policies": [guest.policy],
        "group_uuid": guest.group,
        "group_members": [uuid for uuid, _host in members],
        "group_hosts": sorted({host for _uuid, host in members}),
    }
