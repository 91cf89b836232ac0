# SPDX-License-Identifier: Apache-2.0
"""Labels of hosts: those that the administrator sets, on top of those of the hosts' configuration.

:mod:`conductor_stub.operators.manager` sets them; the check of group rules and the watch over silent hosts read them.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping

import sqlalchemy as sa

from fleet import errors
from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.objects import host_labels

NODES = models.compute_nodes
_REPORTED = NODES.c.stats[host_labels.LABELS]
_LOCKED = (
    sa.select(NODES.c.id, NODES.c.labels)
    .where(NODES.c.host == sa.bindparam("on_host"), sa.not_(NODES.c.deleted))
    .order_by(NODES.c.id)
    .with_for_update()
)


def of_hosts(connection: Transaction | sa.Connection, hosts: Iterable[str] | None = None) -> dict[str, dict[str, str]]:
    """Return the labels that count, by host. Of a host with several nodes, those of the first one.

    :param hosts: None: all
    """
    query = sa.select(NODES.c.host, _REPORTED, NODES.c.labels).where(sa.not_(NODES.c.deleted))
    if hosts is not None:
        query = query.where(NODES.c.host.in_(sorted(hosts)))
    found: dict[str, dict[str, str]] = {}
    for host, reported, administered in connection.execute(query.order_by(NODES.c.host, NODES.c.id)):
        found.setdefault(host, host_labels.effective(reported, administered))
    return found


def of_host(connection: Transaction | sa.Connection, host: str) -> dict[str, str]:
    """:raises errors.NotFound: no node of the host has reported"""
    found = of_hosts(connection, [host])
    if not found:
        raise errors.NotFound(kind="Host", name=host)
    return next(iter(found.values()))


def change(tx: Transaction, host: str, changes: Mapping[str, str | None], now: datetime.datetime) -> None:
    """Set and remove the administrator's labels of all nodes of a host.

    :param changes: None removes the administrator's label, an empty text hides the one that the host reports
    :raises errors.NotFound: errors.InvalidInput: there would be too many
    """
    rows = tx.execute(_LOCKED, {"on_host": host}).all()
    if not rows:
        raise errors.NotFound(kind="Host", name=host)
    for row in rows:
        after = host_labels.changed(row.labels, changes)
        if after != (row.labels or {}):
            tx.update(NODES, row.id, {"labels": after or None, "updated_at": now})
            tx.touch(NODES, row.id)
