# SPDX-License-Identifier: Apache-2.0
"""Run the filters in their order over some hosts, and record which filter dropped each host first.

:mod:`scheduler.engine.decide` calls it for each request, and drivers that do not weigh.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence, Set
from typing import NamedTuple

import numpy

from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.claim_limits import ColumnLimits
from scheduler.engine.names import Properties, Request, Wire
from scheduler.engine.plugins import BaseHostFilter, ColumnFilter, is_column_filter
from scheduler.engine.prepared_request import PreparedRequest
from scheduler.engine.supervision.failures import WrongAnswer

#: In ``dropped_by``, in place of a filter's number: the host is not considered, or has passed all filters.
ABSENT = -2
PASSED = ABSENT + 1
#: Up to one of so many hosts are few.
_FEW = 8


class FilterCount(NamedTuple):
    """The number of hosts that a filter received, and the number that it let through."""

    name: str
    start: int
    end: int

    def to_wire(self) -> Wire:
        return {"name": self.name, "start": self.start, "end": self.end}

    def __str__(self) -> str:
        return f"{self.name}: (start: {self.start}, end: {self.end})"


class Tally(NamedTuple):
    """The number of hosts that were ``considered``, and for each filter the number that it was the first to drop."""

    filters: Sequence[BaseHostFilter]
    considered: int
    dropped: Sequence[int]

    def counts(self) -> list[FilterCount]:
        """Return how many rows each filter received and passed, up to the filter after which none was left."""
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
    """The result of running the filters once over some hosts.

    :param dropped_by: per host the number of the filter that dropped it first, :data:`PASSED` or :data:`ABSENT`
    :param alive: True where ``dropped_by`` is PASSED; ``count`` is how many those are
    :param dropped: per filter, how many of the hosts ``considered`` it dropped first
    :param looked: the filters that judged these hosts
    :param silent: the filters that let every host of the table pass, whatever an earlier instance of the request was
        placed on; none if few hosts were asked about alone
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
    prepared: PreparedRequest, hosts: Candidates, alive: numpy.ndarray, skip: Set[BaseHostFilter] = frozenset()
) -> Round:
    """Run every filter that is not in ``skip``, until none of the ``alive`` hosts is left.

    Where those are few, as with a request that names its host, filters over columns are asked about them alone.

    :raises errors.PluginFailed: a filter misbehaved, and the configuration does not skip such filters
    """
    ask, request = prepared.supervision.ask, prepared.request
    dropped_by = numpy.add(alive, ABSENT, dtype=numpy.int16)  # PASSED where alive
    considered = int(numpy.count_nonzero(alive))
    result = Round(dropped_by, alive, considered, considered, [0] * len(prepared.filters))
    few = numpy.flatnonzero(alive) if _FEW * considered < len(hosts) else None
    asked = hosts if few is None else hosts.subset(hosts.rows[few])
    for number, each in enumerate(prepared.filters):
        if each in skip:
            continue
        if is_column_filter(each):
            mask = ask("Filter", each, mask_of, each, asked, request)
            if mask is not None and few is not None:
                mask = _spread(mask, few, len(hosts))
        else:
            hosts.limits.begin(number, column_limits(prepared, hosts, number))
            mask = ask("Filter", each, _host_by_host, each, hosts, result.alive, prepared.properties)
            if mask is not None:  # None: the filter is left out, and what it has written with it
                hosts.limits.end()
        if mask is None:
            if few is None:
                result.silent.append(each)
            continue
        result.looked.append(each)
        kept = result.alive & mask
        count = int(numpy.count_nonzero(kept))
        if count < result.count:
            numpy.putmask(dropped_by, result.alive > kept, number)
            result.dropped[number] = result.count - count
            result.alive, result.count = kept, count
        if not count:
            break
    return result


def setting_limits(filters: Sequence[BaseHostFilter]) -> list[tuple[int, ColumnFilter]]:
    """Return the column filters that set claim limits, with their positions."""
    return [
        (position, each)
        for position, each in enumerate(filters)
        if is_column_filter(each) and type(each).limits is not ColumnFilter.limits
    ]


def limits(each: ColumnFilter, hosts: Candidates, request: Request) -> dict[str, numpy.ndarray]:
    """Return a filter's limits. :raises WrongAnswer: not one limit per host under each name"""
    found = each.limits(hosts, request)
    for name, values in found.items():
        if not isinstance(values, numpy.ndarray) or values.shape != (len(hosts),):
            raise WrongAnswer(f"gave {values!r:.80} as the limit {name}, where an array of {len(hosts)} is wanted")
    return found


def column_limits(prepared: PreparedRequest, hosts: Candidates, before: int) -> list[ColumnLimits]:
    """Return the limits that the first ``before`` filters set for every host, for a filter of one host at a time.

    They are computed anew for each such filter: few configurations have one.
    """
    whole, ask = hosts.whole(), prepared.supervision.ask
    asked = [
        (position, ask("Filter", each, limits, each, whole, prepared.request))
        for position, each in setting_limits(prepared.filters[:before])
    ]
    return [ColumnLimits(position, found) for position, found in asked if found]


def mask_of(each: ColumnFilter, hosts: Candidates, request: Request) -> numpy.ndarray | None:
    """Return a filter's mask; None if it lets all pass. :raises WrongAnswer: it is no mask of the hosts that it received"""
    mask = each.mask(hosts, request)
    if mask is not None and not (
        isinstance(mask, numpy.ndarray) and mask.dtype == bool and mask.shape == (len(hosts),)
    ):
        raise WrongAnswer(f"answered {_shape(mask)}, where a mask of {len(hosts)} booleans is wanted")
    return mask


def _spread(mask: numpy.ndarray, positions: numpy.ndarray, size: int) -> numpy.ndarray:
    """Return a mask of so many hosts; it is False but at these positions."""
    spread = numpy.zeros(size, dtype=bool)
    spread[positions] = mask
    return spread


def _shape(answer: object) -> str:
    if isinstance(answer, numpy.ndarray):
        return f"an array of {answer.dtype} with shape {answer.shape}"
    return f"{answer!r:.80}"


def _host_by_host(
    each: BaseHostFilter, hosts: Candidates, alive: numpy.ndarray, properties: Properties
) -> numpy.ndarray:
    positions = numpy.flatnonzero(alive)
    states = [hosts.state(row) for row in hosts.rows[positions].tolist()]
    passed = each.filter_all(states, properties)
    kept = set() if passed is None else {id(state) for state in passed}
    if not kept <= {id(state) for state in states}:
        raise WrongAnswer("gave back a host that it was not given")
    return _spread(numpy.array([id(state) in kept for state in states], dtype=bool), positions, len(alive))
