# SPDX-License-Identifier: Apache-2.0
"""Runs the filters in their order over some hosts, and keeps which filter dropped each host first."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence, Set
from typing import Any, NamedTuple

import numpy

from fleet.objects import RequestSpec
from scheduler.engine.candidates import Candidates
from scheduler.engine.claim_limits import ColumnLimits
from scheduler.engine.plugin_watch import PluginWatch, Supervision, WrongAnswer
from scheduler.filters import BaseHostFilter, ColumnFilter, over_columns

#: In ``dropped_by``, instead of a filter's number: it has passed them all, or is not to be considered at all.
ABSENT = -2
PASSED = ABSENT + 1


class FilterCount(NamedTuple):
    """How many hosts a filter was given and how many it let through."""

    name: str
    start: int
    end: int

    def to_wire(self) -> dict[str, Any]:
        return {"name": self.name, "start": self.start, "end": self.end}

    def __str__(self) -> str:
        return f"{self.name}: (start: {self.start}, end: {self.end})"


class Tally(NamedTuple):
    """How many hosts were ``considered``, and per filter, how many of them it was the first to drop."""

    filters: Sequence[BaseHostFilter]
    considered: int
    dropped: Sequence[int]

    def counts(self) -> list[FilterCount]:
        """What each filter was given and let through, up to the one after which none was left."""
        counted = []
        start = self.considered
        for each, number in zip(self.filters, self.dropped, strict=True):
            end = start - int(number)
            counted.append(FilterCount(type(each).__name__, start, end))
            if not end:
                break
            start = end
        return counted


@dataclasses.dataclass
class Round:
    """One run of the filters over some hosts.

    ``dropped_by`` holds per host the number of the filter that dropped it first, :data:`PASSED` or :data:`ABSENT`;
    ``alive`` is true where it is PASSED, and ``count`` says how often; ``dropped`` says it per filter, of those
    ``considered``. ``looked`` are the filters that had something to
    say on these hosts, ``silent`` those to which the request gives nothing to object to, whatever the hosts.
    """

    dropped_by: numpy.ndarray
    alive: numpy.ndarray
    count: int
    considered: int
    dropped: list[int]
    looked: list[BaseHostFilter] = dataclasses.field(default_factory=list)
    silent: list[BaseHostFilter] = dataclasses.field(default_factory=list)


class Drop(NamedTuple):
    """Rows of the table that a filter was the first to drop."""

    by: BaseHostFilter
    rows: numpy.ndarray


def run(
    filters: Sequence[BaseHostFilter],
    hosts: Candidates,
    alive: numpy.ndarray,
    request: RequestSpec,
    properties: dict[str, Any],
    supervision: Supervision | None = None,
    skip: Set[BaseHostFilter] = frozenset(),
) -> Round:
    """Ask every filter that is not to be skipped about ``hosts``, until none is left of those that are ``alive``.

    :raises errors.PluginFailed: a filter misbehaved, and ``supervision`` does not skip it
    """
    ask = (supervision or PluginWatch().begin()).ask
    dropped_by = numpy.add(alive, ABSENT, dtype=numpy.int16)  # which makes PASSED of those that are
    considered = int(numpy.count_nonzero(alive))
    round_ = Round(dropped_by, alive, considered, considered, [0] * len(filters))
    for number, each in enumerate(filters):
        if each in skip:
            continue
        if over_columns(each):
            mask = ask("Filter", each, _mask, each, hosts, request)
        else:
            hosts.limits.begin(number, column_limits(filters[:number], hosts, request, ask))
            mask = ask("Filter", each, _host_by_host, each, hosts, round_.alive, properties)
            if mask is not None:  # else it is left out, and what it has written with it
                hosts.limits.end()
        if mask is None:
            round_.silent.append(each)
            continue
        round_.looked.append(each)
        kept = round_.alive & mask
        count = int(numpy.count_nonzero(kept))
        if count < round_.count:
            numpy.putmask(dropped_by, round_.alive > kept, number)
            round_.dropped[number] = round_.count - count
            round_.alive, round_.count = kept, count
        if not count:
            break
    return round_


def limiting(filters: Sequence[BaseHostFilter]) -> list[tuple[int, ColumnFilter]]:
    """The filters that set limits over columns, with their positions."""
    return [
        (position, each)
        for position, each in enumerate(filters)
        if isinstance(each, ColumnFilter) and over_columns(each) and type(each).limits is not ColumnFilter.limits
    ]


def limits(each: ColumnFilter, hosts: Candidates, request: RequestSpec) -> dict[str, numpy.ndarray]:
    """Ask a filter for its limits. :raises WrongAnswer: not one limit per host under each name"""
    found = each.limits(hosts, request)
    for name, values in found.items():
        if not isinstance(values, numpy.ndarray) or values.shape != (len(hosts),):
            raise WrongAnswer(f"gave {values!r:.80} as the limit {name}, where an array of {len(hosts)} is wanted")
    return found


def column_limits(
    before: Sequence[BaseHostFilter], hosts: Candidates, request: RequestSpec, ask: Callable[..., Any]
) -> list[ColumnLimits]:
    """The limits of every host, for a filter in nova's form to find: few requests meet one, so nothing is kept."""
    whole = hosts.whole()
    asked = [(position, ask("Filter", each, limits, each, whole, request)) for position, each in limiting(before)]
    return [ColumnLimits(position, found) for position, found in asked if found]


def _mask(each: ColumnFilter, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
    """:raises WrongAnswer: it is no mask of the hosts that were asked about"""
    mask = each.mask(hosts, request)
    if mask is not None and not (
        isinstance(mask, numpy.ndarray) and mask.dtype == bool and mask.shape == (len(hosts),)
    ):
        raise WrongAnswer(f"answered {_shape(mask)}, where a mask of {len(hosts)} booleans is wanted")
    return mask


def _shape(answer: object) -> str:
    if isinstance(answer, numpy.ndarray):
        return f"an array of {answer.dtype} with shape {answer.shape}"
    return f"{answer!r:.80}"


def _host_by_host(
    each: BaseHostFilter, hosts: Candidates, alive: numpy.ndarray, properties: dict[str, Any]
) -> numpy.ndarray:
    positions = numpy.flatnonzero(alive)
    states = [hosts.state(row) for row in hosts.rows[positions].tolist()]
    passed = each.filter_all(states, properties)
    kept = set() if passed is None else {id(state) for state in passed}
    if not kept <= {id(state) for state in states}:
        raise WrongAnswer("gave back a host that it was not given")
    mask = numpy.zeros(len(alive), dtype=bool)
    mask[positions] = [id(state) in kept for state in states]
    return mask
