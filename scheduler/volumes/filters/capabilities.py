# SPDX-License-Identifier: Apache-2.0
"""The report of a pool must meet the extra specs of the volume type. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy

from scheduler.engine.hosts.candidates import Candidates
from scheduler.volumes.domain.capabilities import Kind
from scheduler.volumes.domain.request import EXTEND, VolumeRequest
from scheduler.volumes.filters import extra_specs
from scheduler.volumes.filters.base import ColumnFilter

SCOPE = "capabilities"
DETACHED = "detached"
_MISSING = object()
#: The value of an extra spec in the shared part of a report, if it is neither yes nor no.
_NOT_THERE = 2


class CapabilitiesFilter(ColumnFilter):
    """Pools pass whose report meets every extra spec ``KEY[:KEY...]`` or ``capabilities:KEY[:KEY...]``.

    Other scopes belong to others. The report counts as it was sent: volumes placed since do not change it. A volume in use
    is extended only where the pool does not report ``online_extend_support`` as False.
    """

    run_filter_once_per_request = True

    def mask(self, hosts: Candidates, request: VolumeRequest) -> numpy.ndarray | None:
        asked = [(path, extra_specs.requirement(wanted)) for path, wanted in _wanted(request)]
        if request.operation == EXTEND and request.properties.attach_status != DETACHED:
            asked.append((["online_extend_support"], lambda value: value is not False))
            masks = [_mask(hosts, *asked.pop(), missing=True)]
        else:
            masks = []
        masks += [_mask(hosts, path, test) for path, test in asked]
        return functools.reduce(numpy.logical_and, masks) if masks else None

    def objection(self, hosts: Candidates, request: VolumeRequest) -> str:
        (report,) = (hosts.attribute(row, "capabilities") for row in hosts.rows.tolist())
        for path, wanted in _wanted(request):
            if _verdict(report, path, extra_specs.requirement(wanted)) is not True:
                found = _follow(report, path)
                said = "nothing" if found is _MISSING else repr(found)
                return f"reports {said:.80} as {':'.join(path)}, where {wanted!r:.80} is wanted"
        return "cannot extend a volume in use"


def _wanted(request: VolumeRequest) -> list[tuple[list[str], str | None]]:
    """Return the path of each extra spec that this filter reads, and the wanted value."""
    found = []
    for key, wanted in request.extra_specs.items():
        path = key.split(":")
        if len(path) > 1 and path[0] != SCOPE:
            continue
        found.append((path[1:] if path[0] == SCOPE else path, wanted))
    return found


def _mask(hosts: Candidates, path: Sequence[str], test: extra_specs.Test, missing: bool = False) -> numpy.ndarray:
    """:param missing: the answer for a pool that does not report the value"""
    unknown, incomplete = hosts.domain.layout.shared["kind"], False

    def judge(kind: Kind) -> int:
        nonlocal incomplete
        verdict = 0 if kind is unknown else _verdict(kind.values, path, test)
        incomplete |= verdict == _NOT_THERE
        return verdict

    shared = hosts.by_shared("kind", judge, dtype=numpy.int8)
    if incomplete:
        unsaid = numpy.flatnonzero(shared == _NOT_THERE)
        rows = hosts.rows[unsaid].tolist()
        of_one = [_verdict(hosts.object(row, "own") or {}, path, test) for row in rows]
        shared[unsaid] = [missing if each == _NOT_THERE else each for each in of_one]
    return shared.view(bool)


def _verdict(report: Mapping[str, object], path: Sequence[str], test: extra_specs.Test) -> int:
    value = _follow(report, path)
    if value is _MISSING:
        return _NOT_THERE
    return any(test(each) for each in value) if isinstance(value, list) else test(value)


def _follow(value: object, path: Sequence[str]) -> object:
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return _MISSING
        value = value[key]
    return value
