# SPDX-License-Identifier: Apache-2.0
"""Reads the metadata of a host's aggregates: zones, and numbers that override options.

Called by filters, and by :mod:`scheduler.compute.domain.aggregate_overrides`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable

from oslo_log import log as logging

from fleet.objects import Aggregate

LOG = logging.getLogger(__name__)


def values_from_key(aggregates: Iterable[Aggregate], key: str) -> set[str]:
    """Return the distinct values of ``key``, not split at commas."""
    return {aggregate.metadata[key] for aggregate in aggregates if key in aggregate.metadata}


def split_values(aggregates: Iterable[Aggregate], key: str) -> set[str]:
    """Return the values of ``key``, each split at its commas."""
    return {part for value in values_from_key(aggregates, key) for part in _split(value)}


def all_values(aggregates: Iterable[Aggregate]) -> dict[str, set[str]]:
    """Return every key of the aggregates with its values, each split at its commas."""
    merged: dict[str, set[str]] = {}
    for aggregate in aggregates:
        for key, value in aggregate.metadata.items():
            merged.setdefault(key, set()).update(_split(value))
    return merged


def _split(value: str) -> list[str]:
    return [part.strip() for part in value.split(",")]


def smallest_number(
    aggregates: Iterable[Aggregate], key: str, default: float, cast: Callable[[str], float] = float
) -> float:
    """Return the smallest value of ``key``; ``default`` if no aggregate has it, or a value is no number."""
    values = values_from_key(aggregates, key)
    smallest = _smallest(key, frozenset(values), cast) if values else None
    return default if smallest is None else smallest


@functools.lru_cache(maxsize=1024)
def _smallest(key: str, values: frozenset[str], cast: Callable[[str], float]) -> float | None:
    """Cached, so that a bad value is logged once and not for every request."""
    try:
        numbers = [cast(value) for value in values]
        if not all(math.isfinite(number) for number in numbers):
            raise ValueError(f"{sorted(values)} are not all finite")
    except ValueError as bad:
        LOG.warning("Could not decode aggregate metadata %s, the configured value counts: %s", key, bad)
        return None
    if len(numbers) > 1:
        LOG.debug("%d values of aggregate metadata %s found, the smallest is used", len(numbers), key)
    return min(numbers)
