# SPDX-License-Identifier: Apache-2.0
"""The obvious scheduler for volumes: one pool at a time, slow and simple. The real one must agree.

``CHECKS`` and ``RATINGS`` say what each filter and weigher means, by its class name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fleet.pool_capacity import Space, asks_for_thin
from scheduler.volumes.domain.request import VolumeRequest
from tests.unit.scheduler.volumes.pools import Pool, Volume

Volumes = Mapping[str, Volume]
Check = Callable[[Pool, VolumeRequest, Volumes], bool]
FAMILIES = {"iSCSI": ["iSCSI", "iscsi"], "FC": ["FC", "fibre_channel", "fc"]}
TRUE = ("t", "true", "on", "y", "yes", "1")


def space(pool: Pool) -> Space:
    return Space(
        pool.total_capacity_gb,
        pool.free_capacity_gb,
        pool.provisioned_capacity_gb,
        pool.reserved_percentage,
        pool.thin_provisioning_support,
        pool.max_over_subscription_ratio,
    )


def report(pool: Pool) -> dict[str, Any]:
    found = json.loads(pool.capabilities)
    protocol = found.get("storage_protocol")
    return {**found, "storage_protocol": FAMILIES.get(protocol, protocol)} if protocol else found


def capacity(pool: Pool, asked: VolumeRequest, world: Volumes) -> bool:
    if asked.exists_on == pool.name and asked.new_size_gb is None:
        return True
    return space(pool).lacks_gb(asked.requested_gb, asks_for_thin(dict(asked.extra_specs))) == 0


def zone(pool: Pool, asked: VolumeRequest, world: Volumes) -> bool:
    if asked.zones:
        return pool.availability_zone in asked.zones
    wanted = asked.properties.availability_zone
    return not wanted or asked.operation == "migrate_volume_to_host" or pool.availability_zone == wanted


def capabilities(pool: Pool, asked: VolumeRequest, world: Volumes) -> bool:
    said = report(pool)
    in_use = asked.properties.attach_status != "detached"
    if asked.operation == "extend_volume" and in_use and said.get("online_extend_support") is False:
        return False
    for key, wanted in asked.extra_specs.items():
        scope, _colon, rest = key.partition(":")
        if rest and scope != "capabilities":
            continue
        value: Any = said
        for step in (rest or key).split(":"):
            value = value.get(step, math.nan) if isinstance(value, dict) else math.nan
        if value is not None and value != value:
            return False
        values = value if isinstance(value, list) else [value]
        if not any(meets(each, wanted) for each in values):
            return False
    return True


def meets(value: Any, wanted: str | None) -> bool:
    if wanted is None:
        return value is None
    words = wanted.split()
    first, operand = (*words, None, None)[:2]
    if first in ("=", "==", "!=", ">=", "<="):
        try:
            one, other = float(value), float(operand)
        except (TypeError, ValueError):
            return False
        return {"=": one >= other, "==": one == other, "!=": one != other, ">=": one >= other, "<=": one <= other}[
            first
        ]
    if first == "<in>":
        return isinstance(value, str) and operand is not None and operand in value
    if first == "<is>":
        known = value is not None and operand is not None
        return known and (str(value).lower() in TRUE) == (operand.lower() in TRUE)
    if first == "<or>":
        return isinstance(value, str) and value in words[1::2]
    if first == "s==":
        return isinstance(value, str) and value == operand
    return isinstance(value, str) and value == wanted


def untried(pool: Pool, asked: VolumeRequest, world: Volumes) -> bool:
    retry = asked.retry
    tried = [] if retry is None else (retry.hosts if retry.backends is None else retry.backends) or []
    return pool.name not in tried


def _named(pool: Pool, asked: VolumeRequest, world: Volumes, hint: str) -> bool | None:
    """Whether the pool has any of the volumes of a hint; None if the hint is wrong."""
    value = asked.scheduler_hints[hint]
    named = value if isinstance(value, list) else [value]
    if any(len(each) != 36 for each in named):
        return None
    found = [world[each] for each in named if each in world]
    seen = [each for each in found if asked.all_projects or each.project_id == asked.properties.project_id]
    return any((each.host, each.pool) == (pool.host, pool.pool) for each in seen)


def same(pool: Pool, asked: VolumeRequest, world: Volumes) -> bool:
    return asked.scheduler_hints.get("same_host") in (None, []) or _named(pool, asked, world, "same_host") is True


def different(pool: Pool, asked: VolumeRequest, world: Volumes) -> bool:
    return (
        asked.scheduler_hints.get("different_host") in (None, [])
        or _named(pool, asked, world, "different_host") is False
    )


def local(pool: Pool, asked: VolumeRequest, world: Volumes) -> bool:
    hint = asked.scheduler_hints.get("local_to_instance")
    return not hint or pool.host.split("@")[0] == asked.local_host


def query(pool: Pool, asked: VolumeRequest, world: Volumes) -> bool:
    """Understands ``[">=", "$free_capacity_gb", number]`` only."""
    text = asked.scheduler_hints.get("query")
    if not text:
        return True
    _operator, _name, least = json.loads(text)
    return pool.free_capacity_gb is not None and pool.free_capacity_gb >= least


def driver(pool: Pool, asked: VolumeRequest, world: Volumes) -> bool:
    return equation(str(report(pool).get("filter_function", "1")), pool, asked) not in (0, None)


def equation(text: str, pool: Pool, asked: VolumeRequest) -> Any:
    """Understands the equations of the property test only; None if it cannot be computed."""
    free = pool.free_capacity_gb
    return {
        "1": 1,
        "0.0": 0,
        "30": 30,
        "7.5": 7.5,
        "0": 0,
        "volume.size < 20": asked.properties.size < 20,
        "stats.free_capacity_gb > 50": None if free is None else free > 50,
        "stats.storage_protocol == fc": report(pool).get("storage_protocol") == FAMILIES["FC"]
        if "storage_protocol" in report(pool)
        else None,
        "capabilities.nothing": None,
        "30 + volume.size": 30 + asked.properties.size,
        "1000": 1000,
        "good": "good",
    }[text]


CHECKS: dict[str, Check] = {
    "AvailabilityZoneFilter": zone,
    "CapabilitiesFilter": capabilities,
    "CapacityFilter": capacity,
    "DifferentBackendFilter": different,
    "DriverFilter": driver,
    "IgnoreAttemptedHostsFilter": untried,
    "InstanceLocalityFilter": local,
    "JsonFilter": query,
    "SameBackendFilter": same,
}


def free_space(pools: Sequence[Pool], asked: VolumeRequest, multiplier: float) -> list[float]:
    thin = asks_for_thin(dict(asked.extra_specs))

    def is_sized(pool: Pool) -> bool:
        return pool.total_capacity_gb is not None and pool.free_capacity_gb is not None

    known = [space(pool).factors(thin).virtual_free_gb for pool in pools if is_sized(pool)]
    if multiplier > 0:
        behind = -1.0
    elif known:
        behind = max(known) + (100 * (max(known) - min(known)) or 10_000)
    else:
        behind = 0.0
    left = iter(known)
    return [next(left) if is_sized(pool) else behind for pool in pools]


def goodness(pools: Sequence[Pool], asked: VolumeRequest, multiplier: float) -> list[float]:
    rated = []
    for pool in pools:
        value = equation(str(report(pool).get("goodness_function", "0")), pool, asked)
        value = 100 * value if isinstance(value, bool) else value
        rated.append(float(value) if isinstance(value, int | float) and 0 <= value <= 100 else 0.0)
    return rated


#: (pools, request, multiplier) → raw weights. Chance has none that could be compared.
RATINGS: dict[str, Callable[[Sequence[Pool], VolumeRequest, float], list[float]]] = {
    "AllocatedCapacityWeigher": lambda pools, asked, multiplier: [pool.allocated_capacity_gb for pool in pools],
    "CapacityWeigher": free_space,
    "GoodnessWeigher": goodness,
    "VolumeNumberWeigher": lambda pools, asked, multiplier: [pool.total_volumes for pool in pools],
}


def choose(
    pools: Sequence[Pool], asked: VolumeRequest, world: Volumes, checks: Sequence[str], ratings: Mapping[str, float]
) -> list[str]:
    """Names of the pools that pass, the heaviest first, equal ones in their order."""
    left = [pool for pool in pools if all(CHECKS[name](pool, asked, world) for name in checks)]
    scores = [0.0] * len(left)
    for name, multiplier in ratings.items() if len(left) > 1 else ():
        raw = RATINGS[name](left, asked, multiplier)
        low, high = min(raw), max(raw)
        for number, weight in enumerate(raw if low != high else ()):
            scores[number] += multiplier * ((weight - low) / (high - low))
    ranked = sorted(zip(scores, range(len(left)), left, strict=True), key=lambda each: (-each[0], each[1]))
    return [pool.name for _score, _number, pool in ranked]
