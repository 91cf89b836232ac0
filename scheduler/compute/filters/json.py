# SPDX-License-Identifier: Apache-2.0
"""Hosts must meet a JSON query of the user. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from fleet.objects import RequestSpec, hints, request_parts
from scheduler.compute.domain.host_state import HostState
from scheduler.compute.filters import json_query
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates

#: Columns hold whole numbers exactly up to here.
_EXACT = 2**53
#: Numbers that a host need not report: without them it is as if the query did not name them.
_ZERO_IS_UNKNOWN = ("hypervisor_version",)
_JUNCTIONS = {"and": numpy.logical_and, "or": numpy.logical_or}


class JsonFilter(ColumnFilter):
    """With the hint ``query``, hosts pass that meet the query. It does not check whether a host is up."""

    judges = (request_parts.hint("query"),)

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        query = hints.query(request.scheduler_hints)
        if not query:
            return None
        mask = _over_columns(query, hosts)
        return hosts.by_host(lambda state: _meets(query, hosts, state)) if mask is None else mask


def _meets(query: object, hosts: Candidates, state: HostState) -> bool:
    def lookup(path: str) -> Any:
        name, *keys = path.split(".")
        # Attributes that are declared, and no others: a query comes from outside.
        value = getattr(state, name, None) if hosts.storage(name) is not None else None
        if name in _ZERO_IS_UNKNOWN:
            value = value or None
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    return json_query.evaluate(query, lookup)


def _over_columns(query: object, hosts: Candidates) -> numpy.ndarray | None:
    """The common query, of numbers compared with numbers, over all hosts at once; None if it is of another kind."""
    if not isinstance(query, list) or len(query) < 2:
        return None
    name, *arguments = query
    if name in json_query.COMPARISONS:
        return _comparison(json_query.COMPARISONS[name], [_operand(each, hosts) for each in arguments])
    parts = [mask for argument in arguments if (mask := _over_columns(argument, hosts)) is not None]
    if len(parts) < len(arguments):
        return None
    if name == "not":
        return ~numpy.logical_and.reduce(parts)
    return _JUNCTIONS[name].reduce(parts) if name in _JUNCTIONS else None


def _operand(argument: Any, hosts: Candidates) -> Any:
    known = isinstance(argument, str) and argument.startswith("$") and argument[1:] not in _ZERO_IS_UNKNOWN
    if known and hosts.storage(argument[1:]) == "number":
        return hosts.column(argument[1:])
    if isinstance(argument, int | float) and abs(argument) <= _EXACT:
        return argument
    return None


def _comparison(compare: Any, operands: list[Any]) -> numpy.ndarray | None:
    columns = [each for each in operands if isinstance(each, numpy.ndarray)]
    if len(operands) < 2 or not columns or any(operand is None for operand in operands):
        return None
    shape = columns[0].shape
    masks = [numpy.broadcast_to(compare(operands[0], other), shape) for other in operands[1:]]
    return numpy.logical_and.reduce(masks)
