# SPDX-License-Identifier: Apache-2.0
"""Runs the filters in their order and keeps the reasons: how many hosts each saw, and which it dropped."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy
from oslo_log import log as logging

from fleet.objects import RequestSpec
from scheduler.candidates import Candidates
from scheduler.filters import BaseHostFilter, ColumnFilter, over_columns

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class FilterCount:
    """How many hosts a filter was given and how many it let through."""

    name: str
    start: int
    end: int

    def to_wire(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        return f"{self.name}: (start: {self.start}, end: {self.end})"


@dataclasses.dataclass
class Round:
    """One run of the filters. ``survivors[i]`` is the mask after ``counts[i]``, over the hosts the round began with."""

    alive: numpy.ndarray
    count: int
    counts: list[FilterCount] = dataclasses.field(default_factory=list)
    survivors: list[numpy.ndarray] = dataclasses.field(default_factory=list)

    def dropped_by(self) -> dict[str, numpy.ndarray]:
        """Per filter, a mask of the hosts that it was the first to drop."""
        before = self.survivors[0] if self.survivors else self.alive
        dropped = {}
        for count, after in zip(self.counts, self.survivors[1:], strict=True):
            dropped[count.name] = before & ~after
            before = after
        return dropped


def run(
    filters: Sequence[BaseHostFilter],
    hosts: Candidates,
    alive: numpy.ndarray,
    request: RequestSpec,
    properties: dict[str, Any],
    index: int = 0,
    changed: int | None = None,
    log: bool = True,
) -> Round:
    """Narrow ``alive`` by every filter that runs for instance number ``index``; stop when no host is left.

    :param changed: the position of the only host that a pick has changed since all of ``alive`` passed; None for the
        first round, when nothing is known to pass
    :param log: False if running out of hosts is no news
    """
    round_ = Round(alive, int(numpy.count_nonzero(alive)), survivors=[alive])
    for each in filters:
        if not each.run_filter_for_index(index):
            continue
        mask = _mask(each, hosts, round_.alive, request, properties, changed if index else None)
        _narrow(round_, type(each).__name__, mask)
        if not round_.count:
            LOG.log(logging.INFO if log else logging.DEBUG, "Filter %s returned 0 hosts", type(each).__name__)
            break
    return round_


def _narrow(round_: Round, name: str, mask: numpy.ndarray | None) -> None:
    start = round_.count
    if mask is not None:
        round_.alive = round_.alive & mask
        round_.count = int(numpy.count_nonzero(round_.alive))
    round_.counts.append(FilterCount(name, start, round_.count))
    round_.survivors.append(round_.alive)
    LOG.debug("Filter %s returned %d host(s)", name, round_.count)


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
    if changed is None or each.depends_on_picks:
        return each.mask(hosts, request)
    one = each.mask(hosts.one(changed), request)
    if one is None or one[0]:
        return None
    mask = numpy.ones(len(alive), dtype=bool)
    mask[changed] = False
    return mask


def _host_by_host(
    each: BaseHostFilter, hosts: Candidates, alive: numpy.ndarray, properties: dict[str, Any]
) -> numpy.ndarray:
    positions = numpy.flatnonzero(alive)
    states = [hosts.state(row) for row in hosts.rows[positions].tolist()]
    passed = each.filter_all(states, properties)
    kept = set() if passed is None else {id(state) for state in passed}
    mask = numpy.zeros(len(alive), dtype=bool)
    mask[positions] = [id(state) in kept for state in states]
    return mask
