# SPDX-License-Identifier: Apache-2.0
"""Server groups and their members.

Conductors read and write them. ``group_check`` is the check that a claim keeps their policy.
"""

from __future__ import annotations

import collections
import datetime
from collections.abc import Collection, Sequence
from typing import Protocol, cast

import sqlalchemy as sa

from fleet import errors
from fleet.db.engine.database import Transaction
from fleet.db.hosts import lookup
from fleet.db.tables import models
from fleet.db.tables.catalog import GroupRow
from fleet.objects import group_rule, instance_group
from fleet.objects.group_rule import GroupRule

GROUPS = models.instance_groups
MEMBERS = models.instance_group_members
INSTANCES = models.instances
MIGRATIONS = models.migrations

#: Groups of one statement.
_AT_ONCE = 500
_WANTED = sa.bindparam("wanted", type_=sa.String)
_FOUND = sa.select(GROUPS).where(GROUPS.c.uuid == _WANTED)
_LOCKED = sa.select(GROUPS).where(GROUPS.c.uuid == _WANTED).with_for_update()
_OF_THESE = sa.bindparam("wanted", expanding=True, type_=sa.String)
_LIVE = sa.and_(MEMBERS.c.group_uuid.in_(_OF_THESE), sa.not_(INSTANCES.c.deleted))
_MEMBERS = (
    sa.select(MEMBERS.c.group_uuid, INSTANCES.c.uuid, INSTANCES.c.host)
    .join(MEMBERS, MEMBERS.c.instance_uuid == INSTANCES.c.uuid)
    .where(_LIVE)
    .union(
        sa.select(MEMBERS.c.group_uuid, INSTANCES.c.uuid, MIGRATIONS.c.held_host)
        .join(MEMBERS, MEMBERS.c.instance_uuid == INSTANCES.c.uuid)
        .join(MIGRATIONS, MIGRATIONS.c.instance_uuid == INSTANCES.c.uuid)
        .where(_LIVE, MIGRATIONS.c.held_host.is_not(None))
    )
    .order_by("group_uuid", "uuid", "host")
)


def create(
    tx: Transaction,
    uuid: str,
    name: str,
    policy: str,
    max_server_per_host: int,
    rules: Sequence[GroupRule],
    project_id: str | None,
    user_id: str | None,
    now: datetime.datetime,
) -> None:
    """Create a group. The caller chooses the uuid, so that a repeated commit finds its own row.

    Groups of a project may share a name; their uuids differ.
    """
    if tx.execute(sa.select(GROUPS.c.uuid).where(GROUPS.c.uuid == uuid)).first():
        return
    values = {"uuid": uuid, "name": name, "policy": policy, "max_server_per_host": max_server_per_host}
    owner = {"project_id": project_id, "user_id": user_id}
    tx.insert(GROUPS, {**values, "rules": _stored(rules), **owner, "created_at": now})


class PlacedMember(Protocol):
    """A member of a group. :param host: None before the claim"""

    uuid: str
    host: str | None


def get(connection: Transaction | sa.Connection, uuid: str) -> GroupRow:
    """:raises errors.NotFound:"""
    row = of_row(connection, uuid)
    if row is None:
        raise errors.NotFound(kind="Server group", name=uuid)
    return row


def of_row(connection: Transaction | sa.Connection, uuid: str) -> GroupRow | None:
    """The group that the row of an instance names; None: it was removed since the row was read."""
    return cast("GroupRow | None", connection.execute(_FOUND, {"wanted": uuid}).one_or_none())


def find(connection: Transaction | sa.Connection, name: str, project: str | None = None) -> GroupRow:
    """Find a group by uuid, by name, or by the beginning of a uuid.

    :param project: look only at its groups; None: at all
    :raises errors.NotFound: errors.Conflict: several match
    """
    among = lookup.of_project(GROUPS, project)
    row = get(connection, lookup.find(connection, "Server group", GROUPS, name, among=among))
    lookup.require_visible(row, "Server group", name, project)
    return row


def rules_of(row: GroupRow) -> tuple[GroupRule, ...]:
    """Return the rules of a group over labels of hosts."""
    return group_rule.parse(row.rules)


def _stored(rules: Sequence[GroupRule]) -> list[dict[str, object]] | None:
    return [rule.to_wire() for rule in rules] or None


def require_policy(policy: str, rules: Sequence[GroupRule]) -> None:
    """:raises errors.InvalidInput: a group needs a policy or rules"""
    if policy == instance_group.NONE and not rules:
        raise errors.InvalidInput(field="policy", reason="can be none only for a group with rules")


def change(
    tx: Transaction,
    uuid: str,
    name: str | None,
    policy: str | None,
    most: int | None,
    rules: Sequence[GroupRule] | None = None,
) -> GroupRow:
    """:param most: ``max_server_per_host``. :param rules: in place of those that the group has

    :raises errors.NotFound: errors.Conflict: live members contradict the new rule; errors.InvalidInput: nothing is left
    """
    row = cast("GroupRow | None", tx.execute(_LOCKED, {"wanted": uuid}).one_or_none())
    if row is None:
        raise errors.NotFound(kind="Server group", name=uuid)
    there = members(tx, uuid)
    number = len({each.uuid for each in there})
    if policy not in (None, row.policy) and there:
        reason = f"has {number} members, so its policy stays {row.policy}"
        raise errors.Conflict(kind="Server group", name=row.name, reason=reason)
    if rules is not None and there and tuple(rules) != rules_of(row):
        reason = f"has {number} members, so its rules stay as they are"
        raise errors.Conflict(kind="Server group", name=row.name, reason=reason)
    crowd = collections.Counter(each.host for each in there if each.host)
    host, crowded = min(crowd.items(), key=lambda each: (-each[1], each[0]), default=("", 0))
    if most is not None and crowded > most and row.policy == instance_group.ANTI_AFFINITY:
        ends = f"max_server_per_host cannot be {most}"
        reason = f"has {crowded} members on host {host}: {ends}"
        found = errors.Conflict(kind="Server group", name=row.name, reason=reason)
        raise found.hiding(reason=f"has {crowded} members on one host: {ends}")
    wanted = {"name": name, "policy": policy, "max_server_per_host": most}
    changed: dict[str, object] = {column: value for column, value in wanted.items() if value is not None}
    if rules is not None:
        changed["rules"] = _stored(rules)
    require_policy(policy or row.policy, rules_of(row) if rules is None else rules)
    if changed:
        tx.execute(GROUPS.update().where(GROUPS.c.uuid == uuid), changed)
    return get(tx, uuid)


def list_all(connection: sa.Connection, project_id: str | None) -> Sequence[GroupRow]:
    """:param project_id: None: of all projects"""
    query = sa.select(GROUPS).order_by(GROUPS.c.name, GROUPS.c.uuid)
    if project_id is not None:
        query = query.where(GROUPS.c.project_id == project_id)
    return cast("Sequence[GroupRow]", connection.execute(query).all())


def add_members(tx: Transaction, group_uuid: str, instance_uuids: Sequence[str]) -> None:
    for uuid in instance_uuids:
        tx.defer_insert(MEMBERS, {"group_uuid": group_uuid, "instance_uuid": uuid})


def members(connection: Transaction | sa.Connection, group_uuid: str) -> Sequence[PlacedMember]:
    """Live members: uuid and host (None before the claim). A member that is being moved counts on both hosts, so that the
    policy holds however the move ends.
    """
    return members_of(connection, [group_uuid])[group_uuid]


def members_of(connection: Transaction | sa.Connection, uuids: Sequence[str]) -> dict[str, list[PlacedMember]]:
    """Return the members of several groups, by group: see :func:`members`."""
    found: dict[str, list[PlacedMember]] = {uuid: [] for uuid in uuids}
    for start in range(0, len(uuids), _AT_ONCE):
        for row in connection.execute(_MEMBERS, {"wanted": uuids[start : start + _AT_ONCE]}):
            found[row.group_uuid].append(cast("PlacedMember", row))
    return found


def held(tx: Transaction, uuids: Collection[str]) -> set[str]:
    """Return those of these groups that exist. None of them is deleted before the transaction ends."""
    if not uuids:
        return set()
    query = sa.select(GROUPS.c.uuid).where(GROUPS.c.uuid.in_(uuids)).order_by(GROUPS.c.uuid).with_for_update(read=True)
    return set(tx.execute(query).scalars())


def lock(tx: Transaction, group_uuid: str) -> GroupRow | None:
    """The row of the group, locked: decisions about its members are made one at a time."""
    return cast("GroupRow | None", tx.execute(_LOCKED, {"wanted": group_uuid}).one_or_none())
