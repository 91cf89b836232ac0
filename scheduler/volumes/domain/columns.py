# SPDX-License-Identifier: Apache-2.0
"""The columns of storage pools, and how a row of the database fills them.

Called by the modules beside it and those of :mod:`scheduler.volumes.filters`. Names and units are cinder's: GiB. A
capacity that the pool reports as "infinite" or "unknown" is infinite here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from fleet.clock import epoch_s
from fleet.objects.feed_rows import ShownPool
from fleet.pool_capacity import AUTO, DEFAULT_RATIO
from scheduler.engine.hosts.domain import HostRow
from scheduler.volumes.domain import capabilities

NUMBERS: dict[str, type] = {
    "total_capacity_gb": float,
    "free_capacity_gb": float,
    "allocated_capacity_gb": float,
    "provisioned_capacity_gb": float,
    "reserved_percentage": int,
    "total_volumes": int,
    "thin": bool,
    # Of a pool with an automatic ratio, 0: the ratio follows from the other columns (see space).
    "ratio": float,
    "automatic": bool,
    "updated": float,
    "disabled": bool,
    "forced_down": bool,
    "last_seen_up": float,
    # Computed from the columns above when the pool's row changes: see rooms.
    "sized": bool,
    "thick_room_gb": float,
    "thin_room_gb": float,
}
OFTEN_UNIFORM = ("automatic", "sized")
#: Room of a pool that takes no such volume: a number, as minus infinity cannot be weighed.
NO_ROOM = -(2.0**53)


def read_row(pool: ShownPool) -> HostRow:
    """Return a row of ``storage_pools`` in the form of the table."""
    text = pool.capabilities if isinstance(pool.capabilities, str) else json.dumps(pool.capabilities)
    report = capabilities.parse(text)
    return HostRow(
        numbers(pool), {"own": report.own}, {"kind": report.kind, "availability_zone": pool.availability_zone}, {}, {}
    )


def numbers(pool: ShownPool) -> dict[str, float]:
    ratio = pool.max_over_subscription_ratio
    known = {
        "total_capacity_gb": _gb(pool.total_capacity_gb),
        "free_capacity_gb": _gb(pool.free_capacity_gb),
        "allocated_capacity_gb": pool.allocated_capacity_gb,
        "provisioned_capacity_gb": pool.provisioned_capacity_gb,
        "reserved_percentage": pool.reserved_percentage,
        "total_volumes": pool.total_volumes,
        "thin": bool(pool.thin_provisioning_support),
        "automatic": ratio == AUTO,
        "ratio": 0.0 if ratio == AUTO else float(ratio or DEFAULT_RATIO),
        "updated": epoch_s(pool.updated_at) if pool.updated_at else 0.0,
    }
    return {**known, **rooms(known)}


def rooms(known: Mapping[str, float]) -> dict[str, float]:
    """Return the columns that follow from the others: the GiB that a new volume may have, by the arithmetic of
    :mod:`fleet.pool_capacity`.

    Each volume that is placed takes its size from both rooms, so they need not be computed for every request. The thin
    room of a pool with an automatic ratio does not count: :mod:`scheduler.volumes.domain.space` computes it. ``sized``:
    the pool reports numbers as its capacities.
    """
    total, reserved = known["total_capacity_gb"], known["reserved_percentage"]
    free, provisioned = known["free_capacity_gb"], known["provisioned_capacity_gb"]
    if math.isinf(free) or math.isinf(total):
        takes_all = math.isinf(free) or not reserved
        room = math.inf if takes_all else NO_ROOM
        return {"sized": False, "thick_room_gb": room, "thin_room_gb": room}
    available = total - math.floor(total * reserved / 100)
    thick = thin = round(min(free, available - provisioned), 2)
    if known["thin"]:
        thin = round(available * known["ratio"] - provisioned, 2) if known["ratio"] >= 1 else NO_ROOM
    return {"sized": True, "thick_room_gb": thick, "thin_room_gb": thin}


def _gb(capacity: float | None) -> float:
    return math.inf if capacity is None else capacity
