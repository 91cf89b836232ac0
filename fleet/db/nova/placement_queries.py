# SPDX-License-Identifier: Apache-2.0
"""Queries of placement's database: what providers offer, and what is taken of them.

Called by :mod:`scheduler.nova.providers`. Placement counts each change of a provider (inventories, traits, aggregates,
new allocations) in its ``generation``. So a reader compares ids and generations, and reads only those providers that
have changed. It does not count deleted allocations: :func:`usage` shows them.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Mapping
from typing import Protocol, cast

import sqlalchemy as sa

from fleet.db.nova import in_parts
from fleet.db.nova.tables import (
    ALLOCATIONS,
    INVENTORIES,
    PLACEMENT_AGGREGATES,
    PROVIDER_AGGREGATES,
    PROVIDER_TRAITS,
    PROVIDERS,
    RESOURCE_CLASSES,
    TRAITS,
)
from fleet.db.tables.sql_types import AnyRow

_Inventories = Collection[tuple[int, int, int, int, int, int, int, float]]
_Amounts = Collection[tuple[int, int, int]]
_Consumers = Collection[tuple[int, str]]
_Ids = Collection[tuple[int, int]]


class ProviderRow(Protocol):
    """A row of resource_providers."""

    id: int
    uuid: str
    generation: int
    parent_provider_id: int | None


@dataclasses.dataclass(frozen=True)
class Details:
    """Rows of some providers, each with the provider's id first, in no order.

    :param inventories: (provider, class, total, reserved, min_unit, max_unit, step_size, allocation_ratio)
    :param used: (provider, class, amount)
    :param consumers: (provider, uuid of a consumer)
    :param traits: (provider, id of a trait)
    :param aggregates: (provider, id of an aggregate)
    """

    inventories: _Inventories
    used: _Amounts
    consumers: _Consumers
    traits: _Ids
    aggregates: _Ids


def generations(connection: sa.Connection) -> set[tuple[int, int]]:
    """Return (id, generation) of all providers."""
    query = sa.select(PROVIDERS.c.id, PROVIDERS.c.generation)
    return {(number, generation) for number, generation in connection.execute(query).all()}


def providers(connection: sa.Connection, ids: Collection[int] | None = None) -> Collection[ProviderRow]:
    """Return id, uuid, generation and parent of these providers, or of all."""
    query = sa.select(*PROVIDERS.c)
    found = connection.execute(query).all() if ids is None else in_parts.rows(connection, query, PROVIDERS.c.id, ids)
    return cast("Collection[ProviderRow]", found)


def names(connection: sa.Connection) -> tuple[Mapping[int, str], Mapping[int, str], Mapping[int, str]]:
    """Return resource classes, traits and the uuids of aggregates by id."""
    classes = {row.id: row.name for row in connection.execute(sa.select(*RESOURCE_CLASSES.c))}
    traits = {row.id: row.name for row in connection.execute(sa.select(*TRAITS.c))}
    aggregates = {row.id: row.uuid for row in connection.execute(sa.select(*PLACEMENT_AGGREGATES.c))}
    return classes, traits, aggregates


def usage(connection: sa.Connection) -> _Amounts:
    """Return (provider, class, amount) of all that is taken."""
    of = ALLOCATIONS.c
    used = sa.select(of.resource_provider_id, of.resource_class_id, sa.func.sum(of.used))
    found = connection.execute(used.group_by(of.resource_provider_id, of.resource_class_id)).all()
    return cast("_Amounts", found)


def all_details(connection: sa.Connection, since: datetime.datetime) -> Details:
    """Return the details of all providers, with the consumers whose allocations were made after ``since``."""
    of = ALLOCATIONS.c
    recent = sa.select(of.resource_provider_id, of.consumer_id).where(of.created_at >= since).distinct()
    return Details(
        cast("_Inventories", connection.execute(sa.select(*INVENTORIES.c)).all()),
        usage(connection),
        cast("_Consumers", connection.execute(recent).all()),
        cast("_Ids", connection.execute(sa.select(*PROVIDER_TRAITS.c)).all()),
        cast("_Ids", connection.execute(sa.select(*PROVIDER_AGGREGATES.c)).all()),
    )


def details(connection: sa.Connection, ids: Collection[int]) -> Details:
    """Return the details of these providers, with all their consumers."""
    allocations = _of(connection, ALLOCATIONS, ids, "resource_provider_id", "resource_class_id", "consumer_id", "used")
    return Details(
        cast("_Inventories", _of(connection, INVENTORIES, ids, *INVENTORIES.c.keys())),
        [(row.resource_provider_id, row.resource_class_id, row.used) for row in allocations],
        [(row.resource_provider_id, row.consumer_id) for row in allocations],
        cast("_Ids", _of(connection, PROVIDER_TRAITS, ids, *PROVIDER_TRAITS.c.keys())),
        cast("_Ids", _of(connection, PROVIDER_AGGREGATES, ids, *PROVIDER_AGGREGATES.c.keys())),
    )


def _of(connection: sa.Connection, table: sa.TableClause, ids: Collection[int], *columns: str) -> list[AnyRow]:
    query = sa.select(*(table.c[name] for name in columns))
    return in_parts.rows(connection, query, table.c.resource_provider_id, ids)
