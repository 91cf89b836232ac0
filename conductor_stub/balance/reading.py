# SPDX-License-Identifier: Apache-2.0
"""Reads the hosts and guests of an aggregate, with their loads.

``guests_load`` says what a load is. ``trying`` calls this for each round.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
from collections.abc import Mapping, Sequence

from conductor_stub.balance import guests_load
from conductor_stub.balance.deciding import Guest, Host
from conductor_stub.moves import ways
from conductor_stub.steps.balance_settings import BalanceSettings
from fleet import errors, states
from fleet.clock import seconds
from fleet.db.catalog import groups
from fleet.db.engine.database import Connection
from fleet.db.hosts import aggregates, guest_loads, hosts, services
from fleet.db.instances import instances
from fleet.db.operations import balances
from fleet.db.tables.instances import RequestedInstance

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
    nodes = hosts.of_hosts(connection, names)
    several = {host for host, number in collections.Counter(each.host for each in nodes).items() if number > 1}
    agents = services.of_hosts(connection, services.COMPUTE, names)
    up = {host for host in names if host in agents and services.is_up(agents[host], now, down_time_s)}
    takes = {host for host in up if not agents[host].disabled} - several
    rows_of = {host: instances.on_host(connection, host) for host in sorted(up)}
    rows = [row for there in rows_of.values() for row in there]
    reported = guest_loads.of_hosts(connection, up - several, now - seconds(guests_load.FRESH_S))
    loads = {host: guests_load.believable(rows_of[host], there) for host, there in reported.items()}
    found, measured = [], 0
    busy: dict[str, tuple[float, float]] = {}
    for node in nodes:
        if node.host not in up or node.host in several:
            continue
        host, is_measured = guests_load.of_host(node, node.host in takes, loads.get(node.host, {}), now)
        found.append(host)
        measured += is_measured
        busy.update(guests_load.of_guests(host, rows_of[host.name], loads.get(host.name, {})))
    since = now - seconds(settings.cooldown_s)
    lately = balances.moved_since(connection, names, since) | balances.failed_since(connection, aggregate, since)
    way = ways.of_rows(connection, rows, names)
    guests = [
        _guest(
            row,
            busy.get(row.uuid, (0.0, 0.0)),
            way.obstacle(row),
            row.uuid in lately,
            way.takers(row),
            row.uuid in loads.get(str(row.host), {}),
        )
        for row in rows
    ]
    held_up = balances.holding_up(connection, names, aggregate) if names else "the aggregate has no hosts"
    return Seen(found, guests, measured, held_up, _preferring(connection, rows))


def _guest(
    row: RequestedInstance,
    load: tuple[float, float],
    obstacle: str,
    lately: bool,
    takers: frozenset[str],
    measured: bool,
) -> Guest:
    stays = obstacle
    if (row.vm_state, row.task_state) != (states.ACTIVE, None):
        stays = f"is {row.vm_state.upper()} ({row.task_state or 'no task'})"
    elif row.locked_by:
        stays = "is locked"
    elif lately:
        stays = "has moved within its cooldown, or could not"
    held = row.claimed_vcpus, row.claimed_memory_mb, row.claimed_disk_gb
    return Guest(row.uuid, row.name, str(row.host), *held, *load, stays, takers, measured, row.group_uuid or "")


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
