# SPDX-License-Identifier: Apache-2.0
"""Evacuates the members of an affinity group together.

While a group waits on a dead host, that host binds nobody: its members there are left out of what the scheduler and the
claim see. The first member to be routed binds the others instead. Members that are anywhere else bind as always, and so
does every other policy.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from fleet import move_states
from fleet.db import groups, models, services
from fleet.db.engine import Transaction
from fleet.objects import instance_group

_MIGRATIONS = models.migrations
_ROUTED = (
    sa.select(_MIGRATIONS.c.instance_uuid.label("uuid"), _MIGRATIONS.c.dest_compute.label("host"))
    .join(groups.MEMBERS, groups.MEMBERS.c.instance_uuid == _MIGRATIONS.c.instance_uuid)
    .where(
        groups.MEMBERS.c.group_uuid == sa.bindparam("of_group"),
        _MIGRATIONS.c.migration_type == move_states.EVACUATION,
        _MIGRATIONS.c.status == move_states.PREPARING,
        _MIGRATIONS.c.dest_compute.is_not(None),
    )
)


@dataclasses.dataclass(frozen=True)
class Liveness:
    """What decides whether a host is dead."""

    now: datetime.datetime
    down_time_s: float


def dead_hosts(
    connection: Transaction | sa.Connection, record: Any, group_uuid: str, liveness: Liveness
) -> frozenset[str]:
    """Hosts that do not bind the group: the one that ``record`` evacuates, and others that are down.

    Empty unless ``record`` is an evacuation.
    """
    if record.migration_type != move_states.EVACUATION:
        return frozenset()
    hosts = {row.host for row in groups.members(connection, group_uuid)} - {None, record.source_compute}
    found = {host: services.get(connection, host, services.COMPUTE) for host in sorted(hosts)}
    down = {
        host
        for host, service in found.items()
        if service is None or not services.is_up(service, liveness.now, liveness.down_time_s)
    }
    return frozenset({record.source_compute, *down})


def binding_members(
    connection: Transaction | sa.Connection, record: Any, group: Any, liveness: Liveness
) -> Sequence[Any]:
    """Members of ``group``, uuid and host, that the scheduler has to place the instance of ``record`` with."""
    members = groups.members(connection, group.uuid)
    if group.policy != instance_group.AFFINITY:
        return members
    dead = dead_hosts(connection, record, group.uuid, liveness)
    if not dead:
        return members
    routed = connection.execute(_ROUTED, {"of_group": group.uuid}).all()
    own = record.instance_uuid
    return [row for row in (*members, *routed) if row.uuid == own or row.host not in dead]


def may_go(tx: Transaction, move_record: Any, group_uuid: str, host: str, liveness: Liveness) -> bool:
    """Whether no other member was routed elsewhere meanwhile, decided under the group's lock."""
    if move_record.migration_type != move_states.EVACUATION:
        return True
    group = groups.lock(tx, group_uuid)
    if group is None or group.policy != instance_group.AFFINITY:
        return True
    bound = {
        row.host
        for row in binding_members(tx, move_record, group, liveness)
        if row.host is not None and row.uuid != move_record.instance_uuid
    }
    return not bound or host in bound
