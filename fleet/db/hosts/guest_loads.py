# SPDX-License-Identifier: Apache-2.0
"""The loads of guests, as agents have measured them last. A report writes them, and balancing reads them."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Mapping

import sqlalchemy as sa

from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.json_codec import JSONObject
from fleet.objects.guest_load import GuestLoad

LOADS = models.guest_loads
_NAMES = tuple(each.name for each in dataclasses.fields(GuestLoad))

_HERE = sa.and_(LOADS.c.host == sa.bindparam("on_host"), LOADS.c.node == sa.bindparam("on_node"))
_FOUND = sa.select(LOADS.c.host).where(_HERE)
_OF_HOSTS = (
    sa.select(LOADS)
    .where(LOADS.c.host.in_(sa.bindparam("hosts", expanding=True)), LOADS.c.measured_at >= sa.bindparam("since"))
    .order_by(LOADS.c.host, LOADS.c.node)
)


def keep(tx: Transaction, host: str, node: str, loads: Mapping[str, GuestLoad], now: datetime.datetime) -> None:
    """Replace the loads of a node's guests. The caller has locked the node."""
    here = {"on_host": host, "on_node": node}
    values = {"loads": {uuid: dataclasses.asdict(load) for uuid, load in loads.items()}, "measured_at": now}
    if tx.execute(_FOUND, here).first() is None:
        tx.insert(LOADS, {"host": host, "node": node, **values})
    else:
        tx.execute(LOADS.update().where(LOADS.c.host == host, LOADS.c.node == node).values(**values))


def of_hosts(
    connection: Transaction | sa.Connection, hosts: Collection[str], since: datetime.datetime
) -> dict[str, dict[str, GuestLoad]]:
    """Return by host the loads of its guests, by uuid. A measurement before ``since`` is left out."""
    found: dict[str, dict[str, GuestLoad]] = {}
    for row in connection.execute(_OF_HOSTS, {"hosts": sorted(hosts), "since": since}) if hosts else ():
        loads: Mapping[str, JSONObject] = row.loads if isinstance(row.loads, dict) else {}
        known = {uuid: _load(load) for uuid, load in loads.items() if isinstance(load, dict)}
        found.setdefault(row.host, {}).update(known)
    return found


def _load(stored: JSONObject) -> GuestLoad:
    """A later release may store more."""
    return GuestLoad(**{name: stored[name] for name in _NAMES if name in stored})


def remove_before(tx: Transaction, then: datetime.datetime) -> None:
    """Remove measurements of hosts that do not report any more."""
    tx.execute(LOADS.delete().where(LOADS.c.measured_at < then))
