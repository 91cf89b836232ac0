# SPDX-License-Identifier: Apache-2.0
"""Measures the storage pools of a fleet at one moment. :mod:`fleet.utilization.history` keeps one for each moment."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy

from fleet.json_codec import JSONObject


@dataclasses.dataclass(frozen=True)
class Pools:
    """Capacity and use of the pools whose capacity is known: arrays in GiB with one element per pool, and the number of
    all pools.

    :param room: the largest thin volume that each takes
    :param empty: pools without volumes, also of those without a known capacity
    """

    total: numpy.ndarray
    provisioned: numpy.ndarray
    room: numpy.ndarray
    empty: int


@dataclasses.dataclass(frozen=True)
class PoolSample:
    """The pools at one moment.

    :param at: seconds of the trace, or the number of requests if the trace has no times
    :param provisioned: share of all capacity; more than 1 is over-subscribed
    :param placed: volumes until now, as ``refused``
    """

    at: float
    provisioned: float
    room_gb: float
    largest_gb: float
    pools_empty: int
    placed: int
    refused: int

    def to_json(self) -> JSONObject:
        return dataclasses.asdict(self)


def measure_pools(at: float, pools: Pools, placed: int, refused: int) -> PoolSample:
    room = numpy.maximum(pools.room, 0.0)
    total = float(pools.total.sum())
    return PoolSample(
        at=at,
        provisioned=round(float(pools.provisioned.sum()) / total, 4) if total else 0.0,
        room_gb=round(float(room.sum()), 1),
        largest_gb=round(float(room.max(initial=0.0)), 1),
        pools_empty=pools.empty,
        placed=placed,
        refused=refused,
    )


def use_of_pools(names: Sequence[str], pools: Pools) -> list[JSONObject]:
    """Return the share of each pool's capacity that volumes are promised."""
    shares = pools.provisioned / numpy.maximum(pools.total, 1)
    return [{"pool": name, "used": round(share, 4)} for name, share in zip(names, shares.tolist(), strict=True)]
