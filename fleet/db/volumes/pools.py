# SPDX-License-Identifier: Apache-2.0
"""Storage pools: the inventory that volume agents report, and the space that volumes claim.

Called by modules of :mod:`conductor_stub.volumes` and :mod:`fleet.db.upkeep`. A pool's row is the ledger of its space.
Each transaction that changes a claim locks this row first, so two claims never see the same free space.
"""

from __future__ import annotations

import dataclasses
import datetime
import types
from collections.abc import Iterable, Sequence
from typing import Protocol, cast

import sqlalchemy as sa
from oslo_utils import uuidutils

from fleet import errors, pool_capacity
from fleet.capacity import shown
from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.db.tables.volumes import PoolRow
from fleet.objects import PoolReport, location, pool_report

POOLS = models.storage_pools
VOLUMES = models.volumes

_FOUND = sa.select(POOLS).where(POOLS.c.host == sa.bindparam("on_host"), POOLS.c.pool == sa.bindparam("in_pool"))
_LOCKED = _FOUND.with_for_update()
_ALL_LOCKED = (
    sa.select(POOLS)
    .where(
        POOLS.c.host.in_(sa.bindparam("hosts", expanding=True)), POOLS.c.pool.in_(sa.bindparam("pools", expanding=True))
    )
    .order_by(POOLS.c.host, POOLS.c.pool)
    .with_for_update()
)
_OTHERS = (
    sa.select(POOLS.c.id, POOLS.c.pool)
    .where(
        POOLS.c.host == sa.bindparam("on_host"),
        sa.not_(POOLS.c.deleted),
        POOLS.c.pool.not_in(sa.bindparam("pools", expanding=True)),
    )
    .order_by(POOLS.c.id)
)


def _claims_of(host: str, pool: str, size_gb: str) -> sa.Select[object]:
    """The claims that these columns have on one pool."""
    is_volume = sa.case((VOLUMES.c.snapshot_of.is_(None), 1), else_=0)
    return sa.select(VOLUMES.c[size_gb].label("gb"), is_volume.label("volumes")).where(
        VOLUMES.c[host] == sa.bindparam("on_host"),
        VOLUMES.c[pool] == sa.bindparam("in_pool"),
        sa.not_(VOLUMES.c.deleted),
    )


_CLAIMS = sa.union_all(
    _claims_of("host", "pool", "claimed_gb"), _claims_of("held_host", "held_pool", "held_gb")
).subquery()
_CLAIMED = sa.select(*(sa.func.coalesce(sa.func.sum(each), 0).label(each.name) for each in _CLAIMS.c))
_ALL = sa.select(
    sa.func.count().label("number"),
    sa.func.sum(POOLS.c.total_capacity_gb).label("total"),
    sa.func.sum(POOLS.c.free_capacity_gb).label("free"),
    sa.func.sum(POOLS.c.allocated_capacity_gb).label("allocated"),
).where(sa.not_(POOLS.c.deleted))


class PoolTotals(Protocol):
    """Sums over all pools; None if there are none. :param total: and ``free``: GiB of those with a known capacity"""

    number: int
    total: float | None
    free: float | None
    allocated: float | None


def report(tx: Transaction, inventory: PoolReport, now: datetime.datetime) -> None:
    """Store the inventory of a pool, and sum its claims again. A new or deleted pool appears."""
    host, pool = inventory.host, inventory.pool
    found = _lock(tx, host, pool)
    values = {**_inventory(inventory), **_claimed(tx, inventory), "deleted": False, "deleted_at": None}
    if found is None:
        new = {**values, "host": host, "pool": pool, "uuid": uuidutils.generate_uuid()}
        tx.touch(POOLS, tx.insert(POOLS, {**new, "created_at": now, "updated_at": now}))
        return
    changed = {name: value for name, value in values.items() if getattr(found, name) != value}
    if changed:
        tx.update(POOLS, found.id, {"updated_at": now, **changed})
        tx.touch(POOLS, found.id)


def _inventory(report: PoolReport) -> dict[str, object]:
    read = report.read()
    return {
        "availability_zone": report.availability_zone,
        "volume_backend_name": read.volume_backend_name,
        "total_capacity_gb": pool_report.amount(read.total_capacity_gb),
        "reserved_percentage": read.reserved_percentage,
        "max_over_subscription_ratio": pool_report.ratio(read.max_over_subscription_ratio),
        "thin_provisioning_support": read.thin_provisioning_support,
        "thick_provisioning_support": read.thick_provisioning_support,
        "capabilities": report.capabilities,
    }


def _claimed(tx: Transaction, report: PoolReport) -> dict[str, object]:
    """Columns that follow from the claims. The backend's figures do not have what was claimed since it counted.

    What was given back since then frees its size on a pool of thick volumes. Of thin ones only the backend knows it.
    """
    claimed = tx.execute(_CLAIMED, {"on_host": report.host, "in_pool": report.pool}).one()
    read = report.read()
    free = pool_report.amount(read.free_capacity_gb)
    uncounted_gb = int(claimed.gb) - read.allocated_capacity_gb
    if read.thin_provisioning_support:
        uncounted_gb = max(0.0, uncounted_gb)
    return {
        "free_capacity_gb": None if free is None else free - uncounted_gb,
        "allocated_capacity_gb": int(claimed.gb),
        "provisioned_capacity_gb": int(claimed.gb) + read.foreign_gb,
        "total_volumes": int(claimed.volumes),
    }


def remove_except(tx: Transaction, host: str, pools: Iterable[str], now: datetime.datetime) -> list[str]:
    """Mark the pools that ``host`` no longer reports as deleted; return their names."""
    gone = tx.execute(_OTHERS, {"on_host": host, "pools": list(pools)}).all()
    for row in gone:
        tx.update(POOLS, row.id, {"deleted": True, "deleted_at": now, "updated_at": now})
        tx.touch(POOLS, row.id)
    return [row.pool for row in gone]


@dataclasses.dataclass(frozen=True)
class Request:
    """A volume's request to a pool.

    :param thin: the volume may be thin
    :param stored_gb: so much of it lies on the pool already, and is not free there
    :param claimed_gb: so much of it is claimed on the pool already, and is part of what it has promised
    """

    size_gb: int
    thin: bool = True
    stored_gb: int = 0
    claimed_gb: int = 0


def claim(tx: Transaction, host: str, pool: str, wanted: Request, now: datetime.datetime, volumes: int = 1) -> None:
    """Claim space of a pool. :raises errors.PoolSpaceUnavailable:

    :param volumes: number of volumes that are new on the pool; 0 for a snapshot, and for the growth of a volume
    """
    row = _reported(tx, host, pool)
    require_room(row, wanted)
    _change(tx, row, wanted.size_gb, volumes, now, wanted.stored_gb)


def require_space(tx: Transaction, host: str, pool: str, size_gb: int) -> None:
    """Require that a volume of a pool, which was thin until now, may occupy all its space there.

    :raises errors.PoolSpaceUnavailable:
    """
    row = _reported(tx, host, pool)
    if row.thin_provisioning_support:
        require_room(row, Request(size_gb, thin=False, claimed_gb=size_gb))


def _reported(tx: Transaction, host: str, pool: str) -> PoolRow:
    """The locked row. :raises errors.PoolSpaceUnavailable: there is no such pool any more"""
    row = _lock(tx, host, pool)
    if row is None or row.deleted:
        raise errors.PoolSpaceUnavailable(reason=f"pool {location.append_host(host, pool)} is no longer reported")
    return row


def require_room(row: PoolRow, wanted: Request) -> None:
    """:raises errors.PoolSpaceUnavailable: with the numbers of the pool"""
    space = space_of(row)
    space = dataclasses.replace(space, provisioned_gb=space.provisioned_gb - wanted.claimed_gb)
    if space.free_gb is not None:
        space = dataclasses.replace(space, free_gb=space.free_gb + wanted.stored_gb)
    lacks_gb = space.lacks_gb(wanted.size_gb, wanted.thin)
    if not lacks_gb:
        return
    total = "unknown" if space.total_gb is None else shown(space.total_gb)
    free_gb = wanted.size_gb - lacks_gb
    raise errors.PoolSpaceUnavailable(
        reason=f"pool {location.append_host(row.host, row.pool)} lacks {shown(lacks_gb)} GiB: free {shown(free_gb)} of "
        f"{total}, reserved {space.reserved_percentage} %, over-subscription {space.over_subscription:g}"
    )


def release(
    tx: Transaction,
    host: str,
    pool: str,
    size_gb: int,
    now: datetime.datetime,
    volumes: int = 1,
    stays: bool = False,
) -> None:
    """Give back a claim. Of a pool that may be thin, not more is free then than its backend has last reported.

    :param volumes: number of volumes that leave the pool
    :param stays: their data stay on it, so they free nothing
    """
    row = _lock(tx, host, pool)
    if row is not None:
        _change(tx, row, -size_gb, -volumes, now, -size_gb if stays else 0)


def location_info(connection: Transaction, host: str, pool: str) -> str | None:
    """Return the ``location_info`` that the driver reports: the place of the pool's data. None if it reports no text."""
    row = connection.execute(_FOUND, {"on_host": host, "in_pool": pool}).one_or_none()
    reported = None if row is None else row.capabilities.get("location_info")
    return reported if isinstance(reported, str) else None


def zone_of(connection: Transaction, host: str, pool: str) -> str | None:
    """The availability zone of a pool's backend; None if it has none, or the pool is not known."""
    row = connection.execute(_FOUND, {"on_host": host, "in_pool": pool}).one_or_none()
    return None if row is None else row.availability_zone


def is_reported(connection: Transaction, host: str, pool: str) -> bool:
    """Return False if the backend does not have the pool any more, or never had it."""
    row = connection.execute(_FOUND, {"on_host": host, "in_pool": pool}).one_or_none()
    return row is not None and not row.deleted


def space_of(row: PoolRow) -> pool_capacity.Space:
    """The capacity of a pool, as its row has it."""
    return pool_capacity.Space(
        total_gb=row.total_capacity_gb,
        free_gb=row.free_capacity_gb,
        provisioned_gb=row.provisioned_capacity_gb,
        reserved_percentage=row.reserved_percentage,
        thin=row.thin_provisioning_support,
        ratio=row.max_over_subscription_ratio,
    )


def _change(
    tx: Transaction, row: PoolRow, growth_gb: int, volumes: int, now: datetime.datetime, stored_gb: int = 0
) -> None:
    """Change what volumes claim of a pool by ``growth_gb``. :param stored_gb: what of it takes, or frees, no space"""
    free = row.free_capacity_gb
    if free is not None:
        free -= growth_gb - stored_gb
        if growth_gb < 0 and row.thin_provisioning_support:
            # A thin volume occupied what was written to it. The next report has what its removal has freed.
            free = min(free, max(_reported_free_gb(row), row.free_capacity_gb or 0.0))
    changed = {
        "allocated_capacity_gb": row.allocated_capacity_gb + growth_gb,
        "provisioned_capacity_gb": row.provisioned_capacity_gb + growth_gb,
        "free_capacity_gb": free,
        "total_volumes": row.total_volumes + volumes,
        "updated_at": now,
    }
    tx.defer_update(POOLS, row.id, changed)
    tx.locked[POOLS][row.host, row.pool] = types.SimpleNamespace(**{**_known(row), **changed})


def _reported_free_gb(row: PoolRow) -> float:
    """Return what was free when the backend last counted; 0 if the report does not say it."""
    try:
        return float(row.capabilities["free_capacity_gb"])
    except (KeyError, TypeError, ValueError):
        return 0.0


def _known(row: PoolRow) -> dict[str, object]:
    return dict(row._mapping) if isinstance(row, sa.Row) else vars(row)


def lock_all(tx: Transaction, places: Iterable[tuple[str, str]]) -> None:
    """Lock the pools that exist with one statement, in the order that all transactions have.

    Pools of the same names on the other backends are locked, too.
    """
    unread = sorted(set(places) - tx.locked[POOLS].keys())
    if len(unread) > 1:
        hosts, names = ({place[part] for place in unread} for part in (0, 1))
        rows = tx.execute(_ALL_LOCKED, {"hosts": sorted(hosts), "pools": sorted(names)})
        tx.locked[POOLS].update({(row.host, row.pool): row for row in rows})


def _lock(tx: Transaction, host: str, pool: str) -> PoolRow | None:
    """The locked row as it is now."""
    known: dict[tuple[str, str], PoolRow] = tx.locked[POOLS]
    if (host, pool) not in known:
        row = cast("PoolRow | None", tx.execute(_LOCKED, {"on_host": host, "in_pool": pool}).one_or_none())
        if row is None:
            return None
        known[host, pool] = row
    return known[host, pool]


def list_all(connection: sa.Connection, host: str | None = None) -> Sequence[PoolRow]:
    """Pools that are reported, by host and pool."""
    query = sa.select(POOLS).where(sa.not_(POOLS.c.deleted)).order_by(POOLS.c.host, POOLS.c.pool)
    return cast("Sequence[PoolRow]", connection.execute(query.where(POOLS.c.host == host) if host else query).all())


def named(connection: sa.Connection, where: str) -> Sequence[PoolRow]:
    """The pool ``machine@backend#pool``, or the pools of a backend. :raises errors.NotFound:"""
    known = list_all(connection, location.extract_host(where))
    there = [each for each in known if where in (each.host, location.append_host(each.host, each.pool))]
    if not there:
        raise errors.NotFound(kind="Storage pool", name=where)
    return there


def space_of_all(connection: sa.Connection) -> PoolTotals:
    """``number`` of pools; ``total`` and ``free`` GiB of those with a known capacity; ``allocated`` GiB of all."""
    return cast("PoolTotals", connection.execute(_ALL).one())
