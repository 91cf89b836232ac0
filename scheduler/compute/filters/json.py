# SPDX-License-Identifier: Apache-2.0
"""Hosts must meet a JSON query of the user. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy

from fleet.objects import RequestSpec, hints, request_parts
from scheduler.compute.domain import extra_spec_lookup
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
        return _host_by_host(query, hosts) if mask is None else mask


def _host_by_host(query: object, hosts: Candidates) -> numpy.ndarray:
    attribute = functools.cache(functools.partial(extra_spec_lookup.values, hosts))
    met = json_query.evaluate(query, functools.partial(_read, attribute), len(hosts))
    return numpy.fromiter(met, dtype=bool, count=len(hosts))


def _read(attribute: Callable[[str], list[Any]], path: str) -> list[Any]:
    """Return what is at a path of each host. :param attribute: returns those of all hosts that have a name"""
    name, *keys = path.split(".")
    found = attribute(name)
    if name in _ZERO_IS_UNKNOWN:
        found = [value or None for value in found]
    for key in keys:
        found = [value.get(key) if isinstance(value, Mapping) else None for value in found]
    return found


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
