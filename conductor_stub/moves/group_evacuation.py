# SPDX-License-Identifier: Apache-2.0
"""Evacuates the members of an affinity group to one host.

Called by :mod:`conductor_stub.moves.claims` and :mod:`conductor_stub.moves.placement`. While members of a group wait
on a dead host, that host does not bind the group: the scheduler and the claim do not see the members there. The first
member that is sent to a destination binds the others instead. Members on any other host bind as always, and so does
every other policy.
"""

from __future__ import annotations

from collections.abc import Sequence

from conductor_stub.steps.limits import StepContext
from fleet import move_states
from fleet.db.catalog import groups
from fleet.db.catalog.groups import PlacedMember
from fleet.db.engine.database import Connection, Transaction
from fleet.db.hosts import services
from fleet.db.instances import moves
from fleet.db.tables.catalog import GroupRow
from fleet.db.tables.moves import MigrationRow
from fleet.objects import group_rule, instance_group


def dead_hosts(
    connection: Transaction | Connection, record: MigrationRow, group_uuid: str, ctx: StepContext
) -> frozenset[str]:
    """Hosts that do not bind the group: the one that ``record`` evacuates, and others that are down.

    Empty unless ``record`` is an evacuation.
    """
    if record.migration_type != move_states.EVACUATION:
        return frozenset()
    hosts = {row.host for row in groups.members(connection, group_uuid) if row.host} - {record.source_compute}
    silent = services.silent(connection, hosts, ctx.now, ctx.limits.service_down_time_s)
    return silent | {record.source_compute}


def binding_members(
    connection: Transaction | Connection, record: MigrationRow, group: GroupRow, ctx: StepContext
) -> Sequence[PlacedMember]:
    """Members of ``group``, uuid and host, that the scheduler must consider for the instance of ``record``."""
    members = groups.members(connection, group.uuid)
    if group.policy != instance_group.AFFINITY and not _binds_domains(group):
        return members
    dead = dead_hosts(connection, record, group.uuid, ctx)
    if not dead:
        return members
    sent = moves.destinations_of_group(connection, group.uuid)
    own = record.instance_uuid
    return [row for row in (*members, *sent) if row.uuid == own or row.host not in dead]


def _binds_domains(group: GroupRow) -> bool:
    """Return True if the members of the group must share a failure domain."""
    return any(rule.policy == group_rule.AFFINITY for rule in groups.rules_of(group))


def may_go(tx: Transaction, record: MigrationRow, group_uuid: str, host: str, ctx: StepContext) -> bool:
    """Return True if no other member was sent elsewhere meanwhile, decided under the lock of the group."""
    if record.migration_type != move_states.EVACUATION:
        return True
    group = groups.lock(tx, group_uuid)
    if group is None or group.policy != instance_group.AFFINITY:
        return True
    bound = {
        row.host
        for row in binding_members(tx, record, group, ctx)
        if row.host is not None and row.uuid != record.instance_uuid
    }
    return not bound or host in bound
