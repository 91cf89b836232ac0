# SPDX-License-Identifier: Apache-2.0
"""The processors that hosts report. Called by :mod:`conductor_stub.moves.processors`.

Hosts of one model send the same report, and a large one takes a megabyte: so each different report is read once.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from fleet.db.engine.database import Transaction
from fleet.db.hosts.hosts import NODES


def different(
    connection: Transaction | sa.Connection, key: str, value: str, within: Collection[str] | None = None
) -> list[str | None]:
    """Return the different reports of the nodes that report ``value`` in their ``stats`` under ``key``.

    :param within: only these hosts
    """
    query = _reporting(sa.select(NODES.c.cpu_info), key, value, within)
    return list(connection.execute(query.distinct().order_by(NODES.c.cpu_info)).scalars())


def hosts_with(
    connection: Transaction | sa.Connection,
    key: str,
    value: str,
    reports: Collection[str | None],
    within: Collection[str] | None = None,
) -> list[str]:
    """Return the hosts with one of these reports, of those whose reports :func:`different` reads."""
    texts = [each for each in reports if each is not None]
    has_one = sa.or_(NODES.c.cpu_info.in_(texts), NODES.c.cpu_info.is_(None) if None in reports else sa.false())
    query = _reporting(sa.select(NODES.c.host), key, value, within).where(has_one)
    return list(connection.execute(query.distinct().order_by(NODES.c.host)).scalars())


def _reporting(query: Any, key: str, value: str, within: Collection[str] | None) -> Any:
    found = query.where(sa.not_(NODES.c.deleted), NODES.c.stats[key].as_string() == value)
    return found if within is None else found.where(NODES.c.host.in_(sorted(within)))
