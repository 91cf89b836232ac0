# SPDX-License-Identifier: Apache-2.0
"""An agent's report of one storage pool. What volumes claim of it is not part of it: the ledger counts that.

Made by :mod:`volume_agent.backends.backend`; conductors store it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Literal

import pydantic

from fleet import errors, pool_capacity
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import fields, location

#: GiB: more than any storage has. Sums over all pools, and products with a ratio, stay numbers.
MOST_GB = 2**50
Gigabytes = Annotated[float, pydantic.Field(ge=0, le=MOST_GB, allow_inf_nan=False)]
#: GiB, or a word: neither limits the volumes on a pool.
Capacity = Gigabytes | Literal["infinite", "unknown"]
Percentage = Annotated[int, pydantic.Strict(), pydantic.Field(ge=0, le=100)]
#: Capabilities as JSON: more than drivers report, less than what harms a scheduler that reads a thousand of them.
MOST_CAPABILITIES = 512


@dataclasses.dataclass(frozen=True)
class Capabilities:
    """The keys of a report that the ledger reads. Others are free-form, and stored as sent."""

    total_capacity_gb: Capacity
    free_capacity_gb: Capacity
    reserved_percentage: Percentage = 0
    allocated_capacity_gb: Gigabytes = 0
    provisioned_capacity_gb: Gigabytes | None = None
    max_over_subscription_ratio: float | fields.Text | None = None
    thin_provisioning_support: bool = False
    thick_provisioning_support: bool = False
    volume_backend_name: fields.Text | None = None

    @property
    def foreign_gb(self) -> float:
        """GiB that the storage holds besides the volumes of the fleet."""
        provisioned = (
            self.allocated_capacity_gb if self.provisioned_capacity_gb is None else self.provisioned_capacity_gb
        )
        return max(0.0, provisioned - self.allocated_capacity_gb)


@dataclasses.dataclass(frozen=True)
class PoolReport:
    """``host`` is the backend, ``machine@backend``. ``capabilities`` are cinder's keys of a pool, as the driver has them."""

    host: fields.Name
    pool: fields.Name
    capabilities: JSONObject
    availability_zone: fields.Text | None = None

    @classmethod
    def from_wire(cls, data: object, field: str = "report") -> PoolReport:
        """:raises errors.InvalidInput: naming the field"""
        report = fields.parse(cls, data, field)
        location.require_pool(report.pool, f"{field}.pool")
        if len(report.capabilities) > MOST_CAPABILITIES:
            reason = f"has {len(report.capabilities)} keys, at most {MOST_CAPABILITIES} are allowed"
            raise errors.InvalidInput(field=f"{field}.capabilities", reason=reason)
        _check_ratio(
            report.read(field).max_over_subscription_ratio, f"{field}.capabilities.max_over_subscription_ratio"
        )
        return report

    def to_wire(self) -> JSONObject:
        return dict(vars(self))

    def read(self, field: str = "report") -> Capabilities:
        """Return the keys that the ledger reads. :raises errors.InvalidInput: naming the field"""
        return fields.parse(Capabilities, self.capabilities, f"{field}.capabilities")


def amount(capacity: float | str) -> float | None:
    """Return GiB; None for "infinite" and "unknown"."""
    return None if isinstance(capacity, str) else capacity


def ratio(value: float | str | None) -> str | None:
    """Return the ratio as the ledger stores it; None for a ratio that is not set."""
    if not value:
        return None
    return pool_capacity.AUTO if value == pool_capacity.AUTO else str(float(value))


def _check_ratio(value: float | str | None, field: str) -> None:
    if not value or value == pool_capacity.AUTO:
        return
    try:
        good = 1 <= float(value) <= fields.MOST_RATIO
    except ValueError:
        good = False
    if not good:
        allowed = f'"auto" or a number from 1 to {fields.MOST_RATIO}'
        raise errors.InvalidInput(field=field, reason=f"must be {allowed}, got {value!r:.40}")


def flatten(host: str, stats: JSONMapping, availability_zone: str | None) -> list[PoolReport]:
    """Return a report for each pool of a driver's statistics: the keys of the backend fill in for those of a pool.

    A driver that reports no pools is one pool, of the name of its backend.

    :raises errors.InvalidInput: ``pools`` is no list of pools with names
    """
    of_backend = {key: value for key, value in stats.items() if key != "pools"}
    pools = stats.get("pools")
    if pools is None:
        pools = [{"pool_name": of_backend.get("volume_backend_name") or location.DEFAULT_POOL}]
    _require_pools(host, pools)
    return [PoolReport(host, each["pool_name"], {**of_backend, **_set(each)}, availability_zone) for each in pools]


def _require_pools(host: str, pools: object) -> None:
    """:raises errors.InvalidInput:"""
    if not isinstance(pools, list | tuple):
        raise errors.InvalidInput(field=f"pools of {host}", reason=f"must be a list, got {pools!r:.60}")
    for number, pool in enumerate(pools):
        if not isinstance(pool, Mapping) or "pool_name" not in pool:
            reason = f"must be an object with a pool_name, got {pool!r:.60}"
            raise errors.InvalidInput(field=f"pools.{number} of {host}", reason=reason)


def _set(pool: Mapping[str, object]) -> JSONObject:
    return {key: value for key, value in pool.items() if value is not None}
