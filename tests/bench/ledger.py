# SPDX-License-Identifier: Apache-2.0
"""A database full of hosts, as agents that are up would have reported them."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from fleet.clock import seconds, utcnow
from fleet.db.engine.database import Database
from fleet.db.engine.transaction import Transaction
from fleet.db.tables import models
from tests.bench import fleets
from tests.factories import Node

#: Heartbeats lie as far apart as the agents' default interval spreads them.
HEARTBEATS_WITHIN_S = 10
_PAGE = 10_000
_NODES, _SERVICES, _GENERATIONS = models.compute_nodes, models.services, models.generations


def fill(database: Database, hosts: int) -> None:
    chance, now = random.Random(1), utcnow()
    with database.engine.begin() as connection:
        for first in range(0, hosts, _PAGE):
            numbers = range(first, min(first + _PAGE, hosts))
            nodes = [fleets.make_node(number, chance) for number in numbers]
            connection.execute(_NODES.insert(), list(_node_rows(nodes, now)))
            connection.execute(_SERVICES.insert(), list(_service_rows(nodes, now, chance)))
        connection.execute(_GENERATIONS.update().values(value=hosts))
        # As the database does by itself within a minute.
        connection.execute(sa.text("ANALYZE"))


def change(database: Database, numbers: Sequence[int]) -> None:
    """Add an instance to some hosts, as a commit does."""
    database.write(_change, [fleets.name_of(number) for number in numbers])


def _change(transaction: Transaction, hosts: Sequence[str]) -> None:
    of_these = _NODES.c.host.in_(hosts)
    more = {"vcpus_used": _NODES.c.vcpus_used + 1, "running_vms": _NODES.c.running_vms + 1}
    transaction.execute(_NODES.update().where(of_these).values(more))
    transaction.touch(_NODES, *transaction.execute(sa.select(_NODES.c.id).where(of_these)).scalars())


def _node_rows(nodes: list[Node], now: datetime.datetime) -> Iterator[dict[str, Any]]:
    columns = set(_NODES.columns.keys()) - {"id"}
    for node in nodes:
        values = {name: value for name, value in vars(node).items() if name in columns}
        yield {**values, "created_at": now, "updated_at": now, "generation": node.id, "deleted": False}


def _service_rows(nodes: list[Node], now: datetime.datetime, chance: random.Random) -> Iterator[dict[str, Any]]:
    for node in nodes:
        yield {
            "host": node.host,
            "binary": "fleet-compute",
            "topic": "compute",
            "disabled": False,
            "last_seen_up": now - seconds(chance.random() * HEARTBEATS_WITHIN_S),
            "created_at": now,
            "generation": node.id,
        }
