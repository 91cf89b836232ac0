# SPDX-License-Identifier: Apache-2.0
"""What filters and weighers say, in words that a test can compare."""

from __future__ import annotations

import numpy

from fleet.objects import RequestSpec
from scheduler.compute.filters import ColumnFilter
from scheduler.compute.weights import ColumnWeigher
from scheduler.engine.hosts.candidates import Candidates


def passed(each: ColumnFilter, hosts: Candidates, asked: RequestSpec) -> set[str]:
    """Names of the hosts that a filter lets through."""
    mask = each.mask(hosts, asked)
    present = hosts.present()
    kept = present if mask is None else present & mask
    return {hosts.key(row)[0] for row in hosts.rows[kept].tolist()}


def raw(each: ColumnWeigher, hosts: Candidates, asked: RequestSpec) -> dict[str, float]:
    """Raw weights by host name."""
    return dict(zip(_names(hosts), each.raw(hosts, asked).tolist(), strict=True))


def multipliers(each: ColumnWeigher, hosts: Candidates) -> dict[str, float]:
    """Multipliers by host name."""
    return dict(zip(_names(hosts), numpy.broadcast_to(each.multiplier(hosts), len(hosts)).tolist(), strict=True))


def _names(hosts: Candidates) -> list[str]:
    return [hosts.key(row)[0] for row in hosts.rows.tolist()]
