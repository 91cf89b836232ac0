# SPDX-License-Identifier: Apache-2.0
"""Numbers that the metadata of aggregates sets for their hosts.

Filters and weighers with options that aggregates override read them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy

from scheduler.compute.domain import aggregate_metadata
from scheduler.engine.hosts.candidates import Candidates


def number(
    hosts: Candidates, key: str, default: float | numpy.ndarray, cast: Callable[[str], float] = float
) -> float | numpy.ndarray:
    """Return per host the smallest value of ``key`` in its aggregates' metadata, or ``default``.

    A host with any value that is no number gets the default, as in nova.
    """
    if not hosts.in_aggregates(key):
        return default
    found = hosts.by_aggregates(
        lambda aggregates: aggregate_metadata.smallest_number(aggregates, key, numpy.nan, cast), dtype=float
    )
    return numpy.where(numpy.isnan(found), default, found)
