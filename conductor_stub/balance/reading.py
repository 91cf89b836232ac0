# SPDX-License-Identifier: Apache-2.0
"""Reads the hosts and guests of an aggregate, with their loads.

The load of a host is what its agent measures (``cpu.percent``, and the pressures of Linux), if that is fresh, else what is
allocated. The load of a guest is its share of that by vcpus and memory: agents do not measure single guests.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import math
from collections.abc import Mapping, Sequence

from conductor_stub.balance.deciding import Guest, Host
from conductor_stub.moves import ways
from conductor_stub.steps.balance_settings import BalanceSettings
from fleet import capacity, errors, states
from fleet.clock import seconds
from fleet.db.catalog import groups
from fleet.db.engine.database import Connection
from fleet.db.hosts import aggregates, hosts, services
from fleet.db.instances import instances
from fleet.db.operations import balances
from fleet.db.tables.hosts import NodeRow
from fleet.db.tables.instances import RequestedInstance

#: A measurement that is older says nothing of now.
_FRESH_S = 300
#: By policy of a group that prefers something, whether its members should be together.
_SOFT = {"soft-affinity": True, "soft-anti-affinity": False}


@dataclasses.dataclass(frozen=True)
class Seen:
    """:param measured: hosts whose load is measured
    :param held_up: why no guest should move now; ""
    :param preferring: by guest of a group with a soft rule, whether members should be together, and the hosts of the others
    """

    hosts: Sequence[Host]
    guests: Sequence[Guest]
    measured: int
    held_up: str
    preferring: Mapping[str, tuple[bool, collections.Counter[str]]]


def read(
    connection: Connection, aggregate: str, settings: BalanceSettings, now: datetime.datetime, down_time_s: float
) -> Seen:
    """:raises errors.NotFound: there is no such aggregate"""
    names = set(aggregates.named(connection, aggregate).hosts)
    nodes = [each for each in hosts.list_all(connection) if each.host in names]
    several = {host for host, number in collections.Counter(each.host for each in nodes).items() if number > 1}
    agents = {each.host: each for each in services.list_all(connection) if each.binary == services.COMPUTE}
    up = {host for host in names if host in agents and services.is_up(agents[host], now, down_time_s)}
    takes = {host for host in up if not agents[host].disabled} - several
    rows_of = {host: instances.on_host(connection, host) for host in sorted(up)}
    rows = [row for there in rows_of.values() for row in there]
    found, measured = [], 0
    #: By host, what each vcpu keeps busy, and the pressing part of each MB.
    busy: dict[str, tuple[float, float]] = {}
    for node in nodes:
        if node.host not in up or node.host in several:
            continue
        host, is_measured = _host(node, node.host in takes, now)
        found.append(host)
        measured += is_measured
        vcpus = sum(row.claimed_vcpus for row in rows_of[host.name])
        memory_mb = sum(row.claimed_memory_mb for row in rows_of[host.name])
        busy[host.name] = host.cpu * host.cores / max(vcpus, 1), host.memory * host.memory_mb / max(memory_mb, 1)
    since = now - seconds(settings.cooldown_s)
    lately = balances.moved_since(connection, names, since) | balances.failed_since(connection, aggregate, since)
    way = ways.of_rows(connection, rows)
    takers = {row.uuid: frozenset(way.takers(row) & names) for row in rows}
    guests = [
        _guest(
            row,
            busy.get(str(row.host), (0.0, 0.0)),
            way.obstacle(row),
            row.uuid in lately,
            takers[row.uuid],
        )
        for row in rows
    ]
    held_up = balances.holding_up(connection, names, aggregate) if names else "the aggregate has no hosts"
    return Seen(found, guests, measured, held_up, _preferring(connection, rows))


def _host(node: NodeRow, takes: bool, now: datetime.datetime) -> tuple[Host, bool]:
    vcpus = capacity.limit(node.vcpus, node.reserved_vcpus, node.cpu_allocation_ratio)
    memory = capacity.limit(node.memory_mb, node.reserved_memory_mb, node.ram_allocation_ratio)
    metrics = _fresh(node.metrics or (), now)
    measured = "cpu.percent" in metrics
    cpu = metrics["cpu.percent"] if measured else node.vcpus_used / max(vcpus, 1)
    return (
        Host(
            node.host,
            cpu=cpu + metrics.get("cpu.pressure", 0.0),
            memory=metrics.get("memory.pressure", 0.0) if measured else node.memory_mb_used / max(memory, 1),
            cores=float(node.vcpus if measured else vcpus),
            vcpus_free=capacity.usable(vcpus, node.vcpus_used),
            memory_free_mb=capacity.usable(memory, node.memory_mb_used),
            memory_mb=float(memory),
            takes=takes,
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
        if math.isfinite(value) and abs((now - measured_at.replace(tzinfo=None)).total_seconds()) <= _FRESH_S:
            found[str(each.get("name"))] = min(max(value, 0.0), 1.0)
    return found


def _guest(
    row: RequestedInstance, busy: tuple[float, float], obstacle: str, lately: bool, takers: frozenset[str]
) -> Guest:
    stays = obstacle
    if (row.vm_state, row.task_state) != (states.ACTIVE, None):
        stays = f"is {row.vm_state.upper()} ({row.task_state or 'no task'})"
    elif row.locked_by:
        stays = "is locked"
    elif lately:
        stays = "has moved within its cooldown, or could not"
    held = row.claimed_vcpus, row.claimed_memory_mb, row.claimed_disk_gb
    a_vcpu, a_mb = busy
    load = row.claimed_vcpus * a_vcpu, row.claimed_memory_mb * a_mb
    return Guest(row.uuid, row.name, str(row.host), *held, *load, stays, takers)


def _preferring(
    connection: Connection, rows: Sequence[RequestedInstance]
) -> dict[str, tuple[bool, collections.Counter[str]]]:
    found = {}
    for uuid in sorted({row.group_uuid for row in rows if row.group_uuid}):
        try:
            policy = groups.get(connection, uuid).policy
        except errors.NotFound:
            continue
        if policy not in _SOFT:
            continue
        members = groups.members(connection, uuid)
        for each in members:
            others = collections.Counter(other.host for other in members if other.uuid != each.uuid and other.host)
            found[each.uuid] = _SOFT[policy], others
    return found


def soft_refusal(seen: Seen, guest: Guest, host: str) -> str:
    """Return why a soft rule of the guest's group is against the move: it would be kept less well than now."""
    if guest.uuid not in seen.preferring:
        return ""
    together, others = seen.preferring[guest.uuid]
    if together and others[host] < others[guest.host]:
        return f"{guest.name} would leave members of its group, which prefers them together"
    if not together and others[host] > others[guest.host]:
        return f"{guest.name} would join a member of its group on {host}, which prefers them apart"
    return ""
