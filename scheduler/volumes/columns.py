# SPDX-License-Identifier: Apache-2.0
"""The columns of storage pools, and how a row of the database fills them.

Names and units are cinder's: GiB. A capacity that the pool reports as "infinite" or "unknown" is infinite here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from fleet.clock import epoch_s
from fleet.pool_capacity import AUTO, DEFAULT_RATIO
from scheduler.engine.domain import HostRow
from scheduler.volumes import capabilities

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
    # Computed from the columns above when the pool's inventory changes: see ceilings.
    "limited": bool,
    "thick_ceiling_gb": float,
    "thin_ceiling_gb": float,
}
OFTEN_UNIFORM = ("thin", "automatic", "limited")


def read_row(pool: Any) -> HostRow:
    """Return a row of ``storage_pools`` in the form of the table."""
    text = pool.capabilities if isinstance(pool.capabilities, str) else json.dumps(pool.capabilities)
    report = capabilities.parse(text)
    return HostRow(
        numbers(pool), {"own": report.own}, {"kind": report.kind, "availability_zone": pool.availability_zone}, {}, {}
    )


def numbers(pool: Any) -> dict[str, float]:
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
    return {**known, **ceilings(known)}


def ceilings(known: Mapping[str, float]) -> dict[str, float]:
    """Return the columns that follow from the others: what all volumes of a pool may have together.

    ``limited`` is False for pools that take every volume: with infinite or unknown free space, or with such a total and
    nothing reserved. A ceiling of minus infinity takes none.
    """
    total, reserved = known["total_capacity_gb"], known["reserved_percentage"]
    if math.isinf(known["free_capacity_gb"]) or (math.isinf(total) and not reserved):
        return {"limited": False, "thick_ceiling_gb": math.inf, "thin_ceiling_gb": math.inf}
    if math.isinf(total):
        return {"limited": True, "thick_ceiling_gb": -math.inf, "thin_ceiling_gb": -math.inf}
    thick = total - math.floor(total * reserved / 100)
    ratio = known["ratio"]
    thin = thick * ratio if ratio >= 1 or known["automatic"] else -math.inf
    return {"limited": True, "thick_ceiling_gb": thick, "thin_ceiling_gb": thin}


def _gb(capacity: float | None) -> float:
    return math.inf if capacity is None else capacity
