# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of server groups, namespace ``operator``. :mod:`fleet.rpc.clients.operator.catalog` calls it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oslo_utils import uuidutils

from fleet import errors
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.catalog import groups, quotas
from fleet.db.catalog.groups import PlacedMember
from fleet.db.engine.database import Connection, Database, Transaction
from fleet.db.tables.catalog import GroupRow
from fleet.db.upkeep import removal
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import fields, group_rule, instance_group, uuid_like
from fleet.objects.answers.catalog import GroupView
from fleet.objects.group_rule import GroupRule
from fleet.objects.quota import Quota
from fleet.rpc.endpoint import endpoint, served


class GroupManager:
    """A ``name`` is a name or a uuid. Groups may share a name: errors.Conflict then lists their uuids.

    A group belongs to the project that has created it: for other projects neither it nor its name exists.
    Groups without a project, which operators and earlier releases have created, are the administrator's.

    :param default_quota: of projects without one of their own
    """

    target = served("conductor", "operator")

    def __init__(self, database: Database, default_quota: Quota, clock: Clock = utcnow) -> None:
        self._database = database
        self._default_quota = default_quota
        self._clock = clock

    @endpoint
    def list_groups(self, context: RequestContext, project_id: fields.Name | None = None) -> list[GroupView]:
        """:param project_id: only those of this project; None: all that the caller may see"""

        def read(connection: Connection) -> list[GroupView]:
            of = context.scope if context.scope is not None else project_id
            found = [row for row in groups.list_all(connection, of) if project_id in (None, row.project_id)]
            there = groups.members_of(connection, [row.uuid for row in found])
            return [_group_view(row, there[row.uuid]) for row in found]

        return self._database.read(read)

    @endpoint
    def create_group(
        self,
        context: RequestContext,
        name: uuid_like.GivenName,
        policy: instance_group.Policy,
        max_server_per_host: fields.Positive = 1,
        rules: list[JSONObject] | None = None,
    ) -> GroupView:
        """:raises errors.QuotaExceeded: errors.InvalidInput: errors.NotTrusted: a project makes a rule that chooses hosts"""
        uuid = uuidutils.generate_uuid()
        parsed = _allowed_rules(context, rules) or ()
        groups.require_policy(policy, parsed)
        about = {"name": name, "policy": policy, "max_server_per_host": max_server_per_host, "rules": parsed}
        group = {**about, "project_id": context.project_id, "user_id": context.user_id, "now": self._clock()}
        self._database.write(_create_group, self._default_quota, uuid, group)
        return self._show_group(context, uuid)

    @endpoint
    def show_group(self, context: RequestContext, name: fields.Name) -> GroupView:
        return self._show_group(context, name)

    @endpoint
    def update_group(
        self,
        context: RequestContext,
        name: fields.Name,
        new_name: uuid_like.GivenName | None = None,
        policy: instance_group.Policy | None = None,
        max_server_per_host: fields.Positive | None = None,
        rules: list[JSONObject] | None = None,
    ) -> GroupView:
        """:param rules: in place of all that the group has"""
        uuid = self._database.read(groups.find, name, context.scope).uuid
        parsed = _allowed_rules(context, rules)
        self._database.write(groups.change, uuid, new_name, policy, max_server_per_host, parsed)
        return self._show_group(context, uuid)

    @endpoint
    def delete_group(self, context: RequestContext, name: fields.Name) -> None:
        found = self._database.read(groups.find, name, context.scope)
        self._database.write(removal.group, found.uuid)

    def _show_group(self, context: RequestContext, name: str) -> GroupView:

        def read(connection: Connection) -> GroupView:
            row = groups.find(connection, name, context.scope)
            return _group_view(row, groups.members(connection, row.uuid))

        return self._database.read(read)


def _allowed_rules(
    context: RequestContext, rules: Sequence[Mapping[str, object]] | None
) -> tuple[GroupRule, ...] | None:
    """:raises errors.InvalidInput: errors.NotTrusted: a project chooses no hosts"""
    if rules is None:
        return None
    parsed = group_rule.parse(rules)
    for rule in parsed:
        if rule.policy in group_rule.OF_HOSTS and not context.is_admin:
            raise errors.NotTrusted(reason=f"only the administrator makes rules of policy {rule.policy}")
    return parsed


def _create_group(tx: Transaction, default: Quota, uuid: str, group: JSONMapping) -> None:
    """:param group: the arguments of ``groups.create``"""
    project_id = group["project_id"]
    found = quotas.look(tx, quotas.SERVER_GROUPS, [project_id], default, [uuid])
    if not found.keys:
        found.headroom.take(project_id, server_groups=1)
    groups.create(tx, uuid, **group)


def _group_view(row: GroupRow, members: Sequence[PlacedMember]) -> GroupView:
    return {
        "uuid": row.uuid,
        "name": row.name,
        "project_id": row.project_id,
        "user_id": row.user_id,
        "policy": row.policy,
        "max_server_per_host": row.max_server_per_host,
        "rules": row.rules or [],
        "members": list(dict.fromkeys(member.uuid for member in members)),
        "hosts": sorted({member.host for member in members if member.host}),
    }
