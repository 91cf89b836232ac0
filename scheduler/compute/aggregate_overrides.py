# SPDX-License-Identifier: Apache-2.0
"""Numbers that operators set for the hosts of an aggregate, in its metadata."""

from __future__ import annotations

from collections.abc import Callable

import numpy

from scheduler.compute import aggregate_metadata
from scheduler.engine.candidates import Candidates


def number(
    hosts: Candidates, key: str, default: float | numpy.ndarray, cast: Callable[[str], float] = float
) -> float | numpy.ndarray:
    """Per host the smallest value of ``key`` in its aggregates' metadata, or ``default``; that alone if none has it.

    One bad value among a host's leaves the host the default, as in nova.
    """
    if not hosts.in_aggregates(key):
        return default
    found = hosts.by_aggregates(
        lambda aggregates: aggregate_metadata.smallest_number(aggregates, key, numpy.nan, cast), dtype=float
    )
    return numpy.where(numpy.isnan(found), default, found)
