# SPDX-License-Identifier: Apache-2.0
"""The host's attributes must meet the flavor's extra specs. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy

from fleet.objects import RequestSpec, request_parts
from scheduler.compute.domain import extra_spec_lookup
from scheduler.compute.filters import extra_specs_ops
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates

SCOPE = "capabilities"
_MAXPHYSADDR = "hw:maxphysaddr_bits"


class ComputeCapabilitiesFilter(ColumnFilter):
    """Hosts pass that meet every extra spec ``capabilities:ATTRIBUTE[:KEY...]``.

    An attribute that the host does not have is looked for in its ``stats``; text on the way is taken for JSON, so that
    ``capabilities:cpu_info:arch`` works. A key without any scope counts for hosts that have such an attribute.
    """

    judges = (request_parts.EXTRA_SPECS[""], request_parts.EXTRA_SPECS[SCOPE])
    run_filter_once_per_request = True

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        asked = [_one(hosts, key, wanted) for key, wanted in request.flavor.extra_specs.items()]
        masks = [mask for mask in asked if mask is not None]
        return functools.reduce(numpy.logical_and, masks) if masks else None


def _one(hosts: Candidates, key: str, wanted: str) -> numpy.ndarray | None:
    scope, *path = key.split(":")
    if key == _MAXPHYSADDR:
        return _mask(hosts, ["cpu_info", "maxphysaddr", "bits"], extra_specs_ops.of_request(key, f">= {wanted}"))
    if path and scope == SCOPE:
        return _mask(hosts, path, extra_specs_ops.of_request(key, wanted))
    return None if path else _unscoped(hosts, key, wanted)


def _verdict(path: list[str], test: extra_specs_ops.Test) -> Callable[[object], bool]:
    def verdict(value: object) -> bool:
        found = extra_spec_lookup.follow(value, path)
        return found is not None and test(str(found))

    return verdict


def _mask(hosts: Candidates, path: list[str], test: extra_specs_ops.Test) -> numpy.ndarray:
    return extra_spec_lookup.judged_or_stats(hosts, path[0], _verdict(path[1:], test))


def _unscoped(hosts: Candidates, key: str, wanted: str) -> numpy.ndarray:
    """Return a mask for a key without scope. Hosts that do not report it pass: AggregateInstanceExtraSpecsFilter reads
    such keys, too.
    """
    test = extra_specs_ops.of_request(key, wanted)
    if hosts.storage(key) is not None:
        return _mask(hosts, [key], test)
    return hosts.by_rare("stats", lambda stats: key not in stats or _verdict([], test)(stats[key]))
