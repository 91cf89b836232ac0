# SPDX-License-Identifier: Apache-2.0
"""The zones of the fleet, and a check that the zone, host and node that a request names exist.

Called by :mod:`conductor_stub.operators.hosts`, :mod:`conductor_stub.builds.intake` and
:mod:`conductor_stub.builds.unshelving`.
"""

from __future__ import annotations

import datetime

import sqlalchemy as sa

from fleet import errors
from fleet.db.engine.database import Connection
from fleet.db.hosts import services
from fleet.db.hosts.aggregates import AGGREGATES, METADATA, ZONED
from fleet.db.hosts.hosts import NODES
from fleet.db.hosts.services import COMPUTE, SERVICES
from fleet.objects import Zone
from fleet.objects.aggregate import ZONE, zones_of

_NAMED = (
    sa.select(METADATA.c.value)
    .join(AGGREGATES, AGGREGATES.c.id == METADATA.c.aggregate_id)
    .where(METADATA.c.key == ZONE, sa.not_(AGGREGATES.c.deleted))
    .distinct()
    .order_by(METADATA.c.value)
)
#: Without values that name no zone.
_ZONED = ZONED.where(sa.func.trim(sa.func.replace(METADATA.c.value, ",", "")) != "").order_by(None).subquery()


def in_use(connection: Connection, now: datetime.datetime, down_time_s: float, default: str) -> dict[str, bool]:
    """Return the zones that have hosts, each with whether one of its hosts is up and enabled.

    The statement adds up: a fleet may have 100,000 hosts.

    :param default: zone of the hosts that are in no aggregate with a zone
    """
    up, enabled = services.states(now, down_time_s)
    agent = sa.and_(SERVICES.c.host == NODES.c.host, SERVICES.c.binary == COMPUTE, sa.not_(SERVICES.c.deleted))
    takes = sa.func.max(sa.case((SERVICES.c.id.is_(None), 0), else_=up * enabled))
    query = (
        sa.select(_ZONED.c.value, takes.label("takes"))
        .select_from(NODES.outerjoin(SERVICES, agent).outerjoin(_ZONED, _ZONED.c.host == NODES.c.host))
        .where(sa.not_(NODES.c.deleted))
        .group_by(_ZONED.c.value)
        .order_by(_ZONED.c.value)
    )
    found: dict[str, bool] = {}
    for row in connection.execute(query):
        for name in zones_of({ZONE: row.value or ""}) or {default}:
            found[name] = found.get(name, False) or bool(row.takes)
    return dict(sorted(found.items()))


def require_known(connection: Connection, wanted: Zone, default: str) -> None:
    """Check the zone of a request, or its host and node. Beside a host the zone has no effect, so any is accepted.

    :param default: zone of the hosts that are in no aggregate with a zone
    :raises errors.InvalidInput: there is no such zone, host or node
    """
    if wanted.forced:
        if not _are_known(connection, wanted.host, wanted.node):
            given = ("host", wanted.host), ("node", wanted.node)
            there = " and node ".join(repr(name[:100]) for _kind, name in given if name)
            kind = "host" if wanted.host else "node"
            raise errors.InvalidInput(field=ZONE, reason=f"names no {kind} of this fleet: {there}")
    elif wanted.zone and wanted.zone != default:
        known = {zone for value in connection.execute(_NAMED).scalars() for zone in zones_of({ZONE: value})}
        if wanted.zone not in known:
            shown = ", ".join(sorted({default, *known}))[:200]
            reason = f"names no zone of this fleet: {wanted.zone[:100]!r}; known: {shown}"
            raise errors.InvalidInput(field=ZONE, reason=reason)


def require_place(connection: Connection, host: str | None, node: str | None) -> None:
    """Check the host and the node that a request limits the scheduler to. :raises errors.NotFound:"""
    if not _are_known(connection, host, node):
        name = f"{node} of host {host}" if host and node else node or host
        raise errors.NotFound(kind="Node" if node else "Host", name=str(name))


def _are_known(connection: Connection, host: str | None, node: str | None) -> bool:
    """Return True if the fleet has this host, this node, or this node of this host."""
    columns = (NODES.c.host, host), (NODES.c.hypervisor_hostname, node)
    named = [column == name for column, name in columns if name]
    found = sa.select(NODES.c.id).where(*named, sa.not_(NODES.c.deleted)).order_by(NODES.c.id).limit(1)
    return connection.execute(found).first() is not None
