# SPDX-License-Identifier: Apache-2.0
"""Runs the filters in their order and keeps the reasons: how many hosts each saw, and which it dropped."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence, Set
from typing import Any, NamedTuple

import numpy
from oslo_log import log as logging

from fleet.objects import RequestSpec
from scheduler.candidates import Candidates
from scheduler.filters import BaseHostFilter, ColumnFilter, over_columns, recalls
from scheduler.plugin_watch import PluginWatch, Supervision, WrongAnswer

LOG = logging.getLogger(__name__)


class FilterCount(NamedTuple):
    """How many hosts a filter was given and how many it let through."""

    name: str
    start: int
    end: int

    def to_wire(self) -> dict[str, Any]:
        return self._asdict()

    def __str__(self) -> str:
        return f"{self.name}: (start: {self.start}, end: {self.end})"


@dataclasses.dataclass
class Round:
    """One run of the filters. ``survivors[i]`` is the mask after ``counts[i]``, over the hosts the round began with."""

    alive: numpy.ndarray
    count: int
    counts: list[FilterCount] = dataclasses.field(default_factory=list)
    survivors: list[numpy.ndarray] = dataclasses.field(default_factory=list)
    ran: list[BaseHostFilter] = dataclasses.field(default_factory=list)

    def drops(self, hosts: Candidates) -> list[Drop]:
        """Per filter that dropped any, the hosts that it was the first to drop; ``hosts`` are those of the round."""
        rows = hosts.rows
        dropped = []
        for number, each in enumerate(self.ran):
            before, after = self.survivors[number : number + 2]
            if after is not before and self.counts[number].start > self.counts[number].end:
                dropped.append(Drop(each, rows[before & ~after]))
        return dropped

    def silent(self) -> set[BaseHostFilter]:
        """Column filters to which the request gives nothing to object to, whatever an instance is placed on."""
        quiet = zip(self.ran, self.survivors, self.survivors[1:], strict=False)
        return {
            each
            for each, before, after in quiet
            if after is before and isinstance(each, ColumnFilter) and over_columns(each) and not each.depends_on_picks
        }


@dataclasses.dataclass(frozen=True)
class Drop:
    """Rows of the table that a filter was the first to say no to."""

    by: BaseHostFilter
    rows: numpy.ndarray


def run(
    filters: Sequence[BaseHostFilter],
    hosts: Candidates,
    alive: numpy.ndarray,
    request: RequestSpec,
    properties: dict[str, Any],
    index: int = 0,
    changed: int | None = None,
    log: bool = True,
    supervision: Supervision | None = None,
    silent: Set[BaseHostFilter] = frozenset(),
) -> Round:
    """Narrow ``alive`` by every filter that runs for instance number ``index``; stop when no host is left.

    :param changed: the position of the only host that a pick has changed since all of ``alive`` passed; None for the
        first round, when nothing is known to pass
    :param log: False if running out of hosts is no news
    :param silent: of the first round of this request: need not be asked again
    :raises errors.PluginFailed: a filter misbehaved, and ``supervision`` does not skip it
    """
    supervision = supervision or PluginWatch().begin()
    only = changed if index else None
    details = LOG.isEnabledFor(logging.DEBUG)
    round_ = Round(alive, int(numpy.count_nonzero(alive)), survivors=[alive])
    for each in filters:
        if not _runs(each, index, supervision):
            continue
        mask = None
        if each not in silent:
            about = each, hosts, round_.alive, request, properties, only
            mask = supervision.ask("Filter", each, _mask, *about)
        _narrow(round_, each, mask)
        if details:
            LOG.debug("Filter %s returned %d host(s)", type(each).__name__, round_.count)
        if not round_.count:
            LOG.log(logging.INFO if log else logging.DEBUG, "Filter %s returned 0 hosts", type(each).__name__)
            break
    return round_


def _runs(each: BaseHostFilter, index: int, supervision: Supervision) -> bool:
    if type(each).run_filter_for_index is BaseHostFilter.run_filter_for_index:
        return each.run_filter_for_index(index)
    return bool(supervision.ask("Filter", each, each.run_filter_for_index, index))


def _narrow(round_: Round, each: BaseHostFilter, mask: numpy.ndarray | None) -> None:
    start, name = round_.count, type(each).__name__
    if mask is not None:
        round_.alive = round_.alive & mask
        round_.count = int(numpy.count_nonzero(round_.alive))
    round_.ran.append(each)
    round_.counts.append(FilterCount(name, start, round_.count))
    round_.survivors.append(round_.alive)


def _mask(
    each: BaseHostFilter,
    hosts: Candidates,
    alive: numpy.ndarray,
    request: RequestSpec,
    properties: dict[str, Any],
    changed: int | None,
) -> numpy.ndarray | None:
    if not (isinstance(each, ColumnFilter) and over_columns(each)):
        return _host_by_host(each, hosts, alive, properties)
    if changed is None:
        key = each.recall_key(request) if recalls(each) else None
        if key is not None:
            return hosts.recalled((each, key), lambda some: _require_mask(each.mask(some, request), len(some)))
    if changed is None or each.depends_on_picks:
        return _checked(each.mask(hosts, request), len(hosts))
    one = _checked(each.mask(hosts.one(changed), request), 1)
    if one is None or one[0]:
        return None
    mask = numpy.ones(len(alive), dtype=bool)
    mask[changed] = False
    return mask


def _checked(mask: Any, wanted: int) -> numpy.ndarray | None:
    """:raises WrongAnswer: it is no mask of the hosts that were asked about"""
    return None if mask is None else _require_mask(mask, wanted)


def _require_mask(mask: Any, wanted: int) -> numpy.ndarray:
    if not isinstance(mask, numpy.ndarray) or mask.dtype != bool or mask.shape != (wanted,):
        raise WrongAnswer(f"answered {_shape(mask)}, where a mask of {wanted} booleans is wanted")
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
