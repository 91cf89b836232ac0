# SPDX-License-Identifier: Apache-2.0
"""The row of the flavor mix (``fleet.objects.flavor_mix``). Once a minute a conductor counts the instances that are new.

The rows of instances are read by their generations, so a count costs as much as has changed since the last one, and no
request writes anything. An instance is counted a minute after it was requested: by then its row has a generation.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Protocol

import sqlalchemy as sa

from fleet import capacity, states
from fleet.clock import epoch_s, seconds
from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.db.tables.catalog import FlavorMixRow
from fleet.objects.flavor_mix import Counts, FlavorMix, Shape

MIX = models.flavor_mix
INSTANCES = models.instances
#: Seconds between two counts, and from a request to its count.
PERIOD_S = 60

_ROW = sa.select(MIX).where(MIX.c.id == 1)
_GENERATION = sa.select(models.generations.c.value).where(models.generations.c.id == 1)
#: In an order, as hours are added up: a sum of fractions depends on it.
_CHANGED = (
    sa.select(
        *(INSTANCES.c[name] for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")),
        *(INSTANCES.c[name] for name in ("vm_state", "created_at", "launched_at", "deleted_at")),
    )
    .where(INSTANCES.c.generation > sa.bindparam("since"))
    .order_by(INSTANCES.c.uuid)
)


class _Counted(Protocol):
    """The columns that a count reads."""

    vcpus: int
    memory_mb: int
    root_gb: int
    ephemeral_gb: int
    vm_state: str
    created_at: datetime.datetime
    launched_at: datetime.datetime | None
    deleted_at: datetime.datetime | None


def read(connection: sa.Connection) -> FlavorMix:
    row = connection.execute(_ROW).one_or_none()
    return _mix(row)


def _mix(row: FlavorMixRow | None) -> FlavorMix:
    return FlavorMix() if row is None else FlavorMix.from_wire(row.mix or [], row.version, epoch_s(row.faded_until))


def count(tx: Transaction, now: datetime.datetime, half_life_s: float) -> bool:
    """Count the new instances. Return False if another conductor has done so within the last minute, or nothing is new.

    The first count takes all instances that there are.
    """
    row = tx.execute(_ROW.with_for_update()).one_or_none()
    until = now - seconds(PERIOD_S)
    if row is not None and until - row.counted_until < seconds(PERIOD_S - 1):
        return False
    after = None if row is None else row.counted_until
    changed = tx.execute(_CHANGED, {"since": 0 if row is None else row.former_generation})
    found = _counted(changed, after, until)
    mix = _mix(row)
    if found:
        mix = mix.with_more(found, epoch_s(until), half_life_s)
    values = {
        "version": mix.version,
        "mix": mix.to_wire(),
        "faded_until": until if found or row is None else row.faded_until,
        "counted_until": until,
        # A row that is counted next time got its generation after the count before this one.
        "former_generation": 0 if row is None else row.generation,
        "generation": tx.execute(_GENERATION).scalar_one(),
    }
    if row is None:
        tx.insert(MIX, {"id": 1, **values})
    else:
        tx.execute(MIX.update().where(MIX.c.id == 1).values(**values))
    return bool(found)


def _counted(
    rows: Iterable[_Counted], after: datetime.datetime | None, until: datetime.datetime
) -> dict[Shape, Counts]:
    found: dict[Shape, Counts] = {}

    def is_new(moment: datetime.datetime | None) -> bool:
        return moment is not None and moment <= until and (after is None or moment > after)

    for row in rows:
        requested = float(is_new(row.created_at))
        ended = row.vm_state == states.DELETED and row.launched_at is not None and is_new(row.deleted_at)
        if requested or ended:
            lived = row.deleted_at - row.launched_at if ended and row.deleted_at and row.launched_at else None
            hours = lived.total_seconds() / 3600 if lived is not None else 0.0
            shape = Shape(row.vcpus, row.memory_mb, capacity.claimed_disk_gb(row.root_gb, row.ephemeral_gb))
            found[shape] = found.get(shape, Counts()).plus(Counts(requested, float(ended), max(hours, 0.0)))
    return found
