# SPDX-License-Identifier: Apache-2.0
"""Queries of nova's API database: cells, hosts, aggregates, flavors and requests.

Called by modules of :mod:`scheduler.nova` and :mod:`scheduler.nova.shadow`.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping

import sqlalchemy as sa

from fleet import stored_json
from fleet.db.feed.feed import ChangedAggregate
from fleet.db.nova.tables import (
    AGGREGATE_HOSTS,
    AGGREGATE_METADATA,
    AGGREGATES,
    CELLS,
    FLAVOR_SPECS,
    FLAVORS,
    GROUP_MEMBERS,
    GROUP_POLICIES,
    GROUPS,
    HOST_MAPPINGS,
    REQUEST_SPECS,
)
from fleet.json_codec import JSONObject

#: The cell of servers that found no host. It has no hosts.
CELL0 = "00000000-0000-0000-0000-000000000000"


@dataclasses.dataclass(frozen=True)
class Cell:
    """``url`` is the URL of its database, or a template for it; it contains a password."""

    id: int
    uuid: str
    name: str
    disabled: bool
    url: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Layout:
    """The hosts in nova's API database.

    :param cells: by id, without cell0
    :param cell_of: host → id of its cell
    """

    cells: Mapping[int, Cell]
    cell_of: Mapping[str, int]
    aggregates: Mapping[int, ChangedAggregate]


@dataclasses.dataclass(frozen=True)
class Group:
    """A server group. ``rules``: numbers or texts by name; ``members``: uuids of servers."""

    uuid: str
    policies: list[str]
    rules: Mapping[str, object]
    members: list[str]


def ping(connection: sa.Connection) -> None:
    connection.execute(sa.select(sa.literal(1))).scalar_one()


def cells(connection: sa.Connection) -> list[Cell]:
    """All cells but cell0."""
    return [
        Cell(row.id, row.uuid, row.name or row.uuid, bool(row.disabled), row.database_connection)
        for row in connection.execute(sa.select(CELLS).order_by(CELLS.c.id))
        if row.uuid != CELL0
    ]


def layout(connection: sa.Connection) -> Layout:
    """All cells, hosts and aggregates."""
    found = {cell.id: cell for cell in cells(connection)}
    mapped = connection.execute(sa.select(HOST_MAPPINGS.c.host, HOST_MAPPINGS.c.cell_id))
    return Layout(found, {host: cell for host, cell in mapped if cell in found}, _aggregates(connection))


def _aggregates(connection: sa.Connection) -> dict[int, ChangedAggregate]:
    hosts: dict[int, list[str]] = collections.defaultdict(list)
    for row in connection.execute(sa.select(AGGREGATE_HOSTS)):
        hosts[row.aggregate_id].append(row.host)
    metadata: dict[int, dict[str, str]] = collections.defaultdict(dict)
    for row in connection.execute(sa.select(AGGREGATE_METADATA).order_by(AGGREGATE_METADATA.c.key)):
        metadata[row.aggregate_id][row.key] = row.value
    return {
        row.id: ChangedAggregate(row.id, row.name, sorted(hosts[row.id]), metadata[row.id], uuid=row.uuid)
        for row in connection.execute(sa.select(AGGREGATES).order_by(AGGREGATES.c.id))
    }


def flavor(connection: sa.Connection, name: str) -> JSONObject | None:
    """The flavor with this flavorid, or else with this name, with its extra specs; None if there is none."""
    matching = sa.or_(FLAVORS.c.name == name, FLAVORS.c.flavorid == name)
    found = connection.execute(sa.select(FLAVORS).where(matching).order_by(FLAVORS.c.id)).all()
    if not found:
        return None
    row = min(found, key=lambda each: each.flavorid != name)
    of_it = sa.select(FLAVOR_SPECS).where(FLAVOR_SPECS.c.flavor_id == row.id)
    specs = connection.execute(of_it.order_by(FLAVOR_SPECS.c.key))
    return {**row._mapping, "extra_specs": {spec.key: spec.value for spec in specs}}


def group(connection: sa.Connection, name: str) -> Group | None:
    """The server group with this uuid, or else with this name; None if there is none."""
    query = sa.select(GROUPS).where(sa.or_(GROUPS.c.uuid == name, GROUPS.c.name == name))
    found = sorted(connection.execute(query.order_by(GROUPS.c.id)), key=lambda row: row.uuid != name)
    if not found:
        return None
    number = found[0].id
    of_it = sa.select(GROUP_POLICIES).where(GROUP_POLICIES.c.group_id == number)
    policies = connection.execute(of_it.order_by(GROUP_POLICIES.c.policy)).all()
    uuid = GROUP_MEMBERS.c.instance_uuid
    members = sa.select(uuid).where(GROUP_MEMBERS.c.group_id == number).order_by(uuid)
    rules = {key: value for row in policies if row.rules for key, value in stored_json.read(row.rules).items()}
    return Group(found[0].uuid, [row.policy for row in policies], rules, list(connection.scalars(members)))


def newest_request_specs(connection: sa.Connection, number: int) -> list[tuple[str, object]]:
    """(uuid of the server, its RequestSpec) of the newest requests."""
    query = sa.select(REQUEST_SPECS.c.instance_uuid, REQUEST_SPECS.c.spec).order_by(REQUEST_SPECS.c.id.desc())
    return [(uuid, stored_json.read(spec)) for uuid, spec in connection.execute(query.limit(number))]


def request_spec(connection: sa.Connection, instance_uuid: str) -> object | None:
    """The RequestSpec with which a server was built or moved last, as nova stores it; None if there is none."""
    found = connection.execute(
        sa.select(REQUEST_SPECS.c.spec).where(REQUEST_SPECS.c.instance_uuid == instance_uuid)
    ).scalar()
    return None if found is None else stored_json.read(found)
