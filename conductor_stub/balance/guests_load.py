# SPDX-License-Identifier: Apache-2.0
"""Loads of hosts and of their guests, from measurements if there are any. ``reading`` asks for them.

The load of a host is what its agent measures (``cpu.percent``, and the pressures of Linux), else the sum of what its guests
use, else what is allocated. The load of a guest is what its host measures of it. A guest that is not measured has its share,
by vcpus and memory, of what is left of the host's load.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence

from conductor_stub.balance.deciding import Host
from fleet import capacity
from fleet.db.tables.hosts import NodeRow
from fleet.db.tables.instances import RequestedInstance
from fleet.objects.guest_load import GuestLoad

#: Seconds after which a measurement is too old to describe the present load.
FRESH_S = 300
#: Seconds after a move until it is measured: an agent measures a guest that has come from its second audit on.
SETTLED_S = 150


def believable(rows: Sequence[RequestedInstance], loads: Mapping[str, GuestLoad]) -> dict[str, GuestLoad]:
    """Return the loads of these guests, none with more than its vcpus and its memory: an agent may report anything."""
    found = {}
    for row in rows:
        if (load := loads.get(row.uuid)) is not None:
            cores, lasting = (_within(each, row.claimed_vcpus) for each in (load.cores, _lasting(load)))
            memory_mb = load.memory_mb if load.memory_mb is None else _within(load.memory_mb, row.claimed_memory_mb)
            found[row.uuid] = GuestLoad(cores, lasting, memory_mb)
    return found


def _within(value: float, most: float) -> float:
    return min(max(value, 0.0), float(most))


def _lasting(load: GuestLoad) -> float:
    return load.cores if load.lasting is None else load.lasting


def of_host(node: NodeRow, takes: bool, loads: Mapping[str, GuestLoad], now: datetime.datetime) -> tuple[Host, bool]:
    """Return a host, and True if its load is measured. :param loads: of its guests, by uuid"""
    vcpus = capacity.limit(node.vcpus, node.reserved_vcpus, node.cpu_allocation_ratio)
    memory = capacity.limit(node.memory_mb, node.reserved_memory_mb, node.ram_allocation_ratio)
    metrics = _fresh(node.metrics or (), now)
    measured = "cpu.percent" in metrics or bool(loads)
    now_used = sum(each.cores for each in loads.values()) / max(node.vcpus, 1)
    lasting = sum(map(_lasting, loads.values())) / max(node.vcpus, 1)
    if "cpu.percent" in metrics:
        # What guests use for long, and what else the machine does now.
        cpu = max(0.0, metrics["cpu.percent"] - now_used) + lasting
    elif loads:
        cpu = lasting
    else:
        cpu = node.vcpus_used / max(vcpus, 1)
    return (
        Host(
            node.host,
            cpu=cpu + metrics.get("cpu.pressure", 0.0),
            memory=metrics.get("memory.pressure", 0.0) if measured else node.memory_mb_used / max(memory, 1),
            cores=float(node.vcpus),
            vcpus_free=capacity.usable(vcpus, node.vcpus_used),
            memory_free_mb=capacity.usable(memory, node.memory_mb_used),
            memory_mb=float(memory),
            takes=takes and vcpus > 0 and memory > 0,
            smooth=bool(loads),
            vcpus=0.0 if measured else float(vcpus),
        ),
        measured,
    )


def _fresh(metrics: Sequence[Mapping[str, object]], now: datetime.datetime) -> dict[str, float]:
    found = {}
    for each in metrics:
        try:
            measured_at = datetime.datetime.fromisoformat(str(each["timestamp"]))
            value = float(str(each["value"]))
        except (KeyError, TypeError, ValueError):
            continue
        if math.isfinite(value) and abs((now - measured_at.replace(tzinfo=None)).total_seconds()) <= FRESH_S:
            found[str(each.get("name"))] = min(max(value, 0.0), 1.0)
    return found


def of_guests(
    host: Host, rows: Sequence[RequestedInstance], loads: Mapping[str, GuestLoad]
) -> dict[str, tuple[float, float]]:
    """Return by uuid the cores that a guest keeps busy, and its part in MB of the load of the memory.

    Where work waits for processors, each guest also has its share of that. None counts with more than its host.
    """
    whole = host.cpu * host.cores
    used = {row.uuid: _lasting(loads[row.uuid]) for row in rows if row.uuid in loads}
    measured = sum(used.values())
    others = [row for row in rows if row.uuid not in used]
    a_vcpu = max(whole - measured, 0.0) / max(sum(row.claimed_vcpus for row in others), 1)
    if measured and not others:
        # What the machine itself does stays; only the time in which guests wait is theirs.
        waiting = max(0.0, whole - max(host.cores, measured))
        used = {uuid: cores * (1 + waiting / measured) for uuid, cores in used.items()}
    memory = {row.uuid: _memory_mb(row, loads.get(row.uuid)) for row in rows}
    a_mb = host.memory * host.memory_mb / max(sum(memory.values()), 1)
    return {
        row.uuid: (min(used.get(row.uuid, row.claimed_vcpus * a_vcpu), whole), memory[row.uuid] * a_mb) for row in rows
    }


def _memory_mb(row: RequestedInstance, load: GuestLoad | None) -> float:
    known = None if load is None else load.memory_mb
    return float(row.claimed_memory_mb) if known is None else known
