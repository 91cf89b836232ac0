# SPDX-License-Identifier: Apache-2.0
"""Request and candidates in, ranked picks and reasons out; nothing is read, sent or kept."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy
from oslo_log import log as logging

from fleet.objects import Place, RequestSpec
from scheduler import filtering, one_host, refusal, restriction, scores, weights
from scheduler.candidates import Candidates
from scheduler.consumption import Consumption
from scheduler.filters import BaseHostFilter, ColumnFilter, over_columns
from scheduler.outcome import Decision, Pick
from scheduler.plugin_watch import PluginWatch, Supervision, WrongAnswer
from scheduler.weighing import Kept, Weighing
from scheduler.weights import BaseHostWeigher

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """How to decide: everything that the configuration and the domain say, and nothing of a request.

    ``consumption`` gives what one instance takes of its host; ``watch`` asks the plugins.
    """

    filters: Sequence[BaseHostFilter]
    weighers: Sequence[BaseHostWeigher]
    consumption: Callable[[RequestSpec], Consumption]
    host_subset_size: int = 1
    shuffle_best_same_weighed_hosts: bool = False
    alternates: int = 0
    watch: PluginWatch = dataclasses.field(default_factory=PluginWatch)

    @functools.cached_property
    def columns_only(self) -> bool:
        """Whether nobody here reads nova's dict of the request."""
        return all(over_columns(each) for each in self.filters) and all(
            weights.over_columns(each) for each in self.weighers
        )

    @functools.cached_property
    def limiting(self) -> Sequence[ColumnFilter]:
        """The filters that set limits over columns."""
        return [
            each
            for each in self.filters
            if isinstance(each, ColumnFilter) and type(each).limits is not ColumnFilter.limits
        ]


def decide(
    pipeline: Pipeline,
    hosts: Candidates,
    request: RequestSpec,
    chance: random.Random,
    context: object = None,
    config_options: Mapping[str, Any] | None = None,
    supervision: Supervision | None = None,
    log: bool = True,
    best: int = 0,
) -> Decision:
    """Pick a host for each instance of the request, one after the other, until no host is left.

    :param supervision: of this request, if plugins were asked about it before
    :param log: False for a dry run, which is no news
    :param best: of how many hosts to tell how they came to their weights for the first instance
    :raises errors.PluginFailed: a filter or weigher misbehaved, and is not to be skipped
    """
    asking = supervision or pipeline.watch.begin()
    return _Course(pipeline, hosts, request, chance, context, config_options or {}, asking).run(log, best)


class _Course:
    """One decision under way: the survivors so far, and the request as its picks have changed it."""

    def __init__(
        self,
        pipeline: Pipeline,
        hosts: Candidates,
        request: RequestSpec,
        chance: random.Random,
        context: object,
        config_options: Mapping[str, Any],
        supervision: Supervision,
    ) -> None:
        self._pipeline = pipeline
        self._all = hosts
        self._request = request
        self._chance = chance
        self._amounts = pipeline.consumption(request)
        self._supervision = supervision
        self._weighing = Weighing(pipeline.weighers, self._supervision)
        self._drops: list[filtering.Drop] = []
        self._silent: set[BaseHostFilter] = set()
        self._properties = plugin_properties(pipeline, request, context, config_options)
        self._picks: list[Pick] = []
        self._chosen_rows: list[int] = []
        self._scores: list[dict[str, Any]] = []

    def run(self, log: bool = True, best: int = 0) -> Decision:
        allowed = restriction.restrict(self._all, self._request)
        # Forced hosts are taken as they are: the operator has overruled the filters.
        self._filters = () if allowed.forced else self._pipeline.filters
        self._limiting = () if allowed.forced else self._pipeline.limiting
        self._considered = int(numpy.count_nonzero(allowed.mask))
        self._first = round_ = self._filter(self._all, allowed.mask, 0, None, log)
        if self._request.num_instances > 1:
            self._silent = round_.silent()
        self._survivors = self._all.rows[round_.alive] if round_.count < len(self._all) else self._all.rows
        self._hosts = self._all if round_.count == len(self._all) else self._all.subset(self._survivors)
        kept: Kept | None = None
        for index in range(self._request.num_instances):
            if index:
                round_, kept = self._narrow(index, log)
            if not round_.count:
                break
            score = self._score(kept)
            if best and not index:
                self._scores = self._score_table(best)
            self._pick(index, score)
        if self._complete:
            self._add_alternates()
        return Decision(
            requested=self._request.num_instances,
            considered=self._considered,
            picks=self._picks,
            counts=(self._first if self._complete else round_).counts,
            amounts=self._amounts,
            refusal=self._refusal(),
            remarks=self._supervision.remarks,
            instance_type_id=self._request.flavor.id,
            scores=self._scores,
        )

    @property
    def _complete(self) -> bool:
        return len(self._picks) == self._request.num_instances

    def _refusal(self) -> refusal.Refusal | None:
        if self._complete:
            return None
        if not self._considered:
            return refusal.of_none_considered(int(numpy.count_nonzero(self._all.present())))
        drops = [*self._first.drops(self._all), *self._drops]
        if LOG.isEnabledFor(logging.DEBUG):
            for drop in drops:
                LOG.debug("Filter %s dropped %s", type(drop.by).__name__, [self._all.key(row) for row in drop.rows])
        return refusal.of_drops(self._all, self._request, self._filters, drops, self._considered, self._supervision)

    def _score_table(self, count: int) -> list[dict[str, Any]]:
        """How the ``count`` best of the last round came to their weights, best first."""
        positions = scores.best(self._last_score, min(count, len(self._survivors))).tolist()
        keys = [self._all.key(int(self._survivors[each])) for each in positions]
        weighers = self._weighing.table(self._hosts, positions)
        return [
            {"host": key[0], "nodename": key[1], "weight": float(self._last_score[each]), "weighers": rows}
            for key, each, rows in zip(keys, positions, weighers, strict=True)
        ]

    def _filter(
        self, hosts: Candidates, alive: numpy.ndarray, index: int, changed: int | None, log: bool = True
    ) -> filtering.Round:
        return filtering.run(
            self._filters,
            hosts,
            alive,
            self._request,
            self._properties,
            index,
            changed,
            log,
            self._supervision,
            self._silent,
        )

    def _narrow(self, index: int, log: bool = True) -> tuple[filtering.Round, Kept]:
        """Filter what is left after the last pick, and say how the survivors have changed."""
        changed = int(numpy.searchsorted(self._survivors, self._chosen_rows[-1]))
        everyone = numpy.ones(len(self._survivors), dtype=bool)
        round_ = self._filter(self._hosts, everyone, index, changed, log)
        if round_.count == len(everyone):
            return round_, Kept(None, changed)
        self._drops += round_.drops(self._hosts)
        place = int(numpy.count_nonzero(round_.alive[:changed])) if round_.alive[changed] else None
        self._survivors = self._survivors[round_.alive]
        self._hosts = self._all.subset(self._survivors)
        return round_, Kept(round_.alive, place)

    def _score(self, kept: Kept | None) -> numpy.ndarray:
        self._last_score = self._weighing.scores(self._hosts, self._request, self._properties, kept)
        return self._last_score

    def _pick(self, index: int, score: numpy.ndarray) -> None:
        single = self._request.num_instances == 1
        wanted = self._pipeline.host_subset_size + (self._pipeline.alternates if single else 0)
        shuffle = self._chance if self._pipeline.shuffle_best_same_weighed_hosts else None
        ranked = scores.best(score, min(wanted, len(score)), shuffle)
        subset = ranked[: max(1, self._pipeline.host_subset_size)]
        position = int(subset[0] if len(subset) == 1 else self._chance.choice(subset))
        row = int(self._survivors[position])
        self._chosen_rows.append(row)
        uuids = self._request.instance_uuids
        uuid = uuids[index] if index < len(uuids) else f"unnamed-{index}"
        others = [int(self._survivors[each]) for each in ranked if int(each) != position] if single else []
        place, *alternates = self._places([row, *others[: self._pipeline.alternates]])
        pick = Pick(uuid, self._all.key(row), place.limits or {}, float(score[position]), alternates)
        self._picks.append(pick)
        LOG.debug("Selected host: %s for instance %s, weight %s", pick.key, uuid, pick.weight)
        if not single:
            self._count(row, uuid)

    def _count(self, row: int, uuid: str) -> None:
        """Let the rest of the request see the pick."""
        self._all.pick(row, uuid, self._amounts)
        if self._request.group_updated:
            grown = self._request.group_hosts | {self._all.key(row)[0]}
            self._request = dataclasses.replace(self._request, group_hosts=grown)
            self._properties.update({"group_hosts": set(grown), one_host.REQUEST: self._request})

    def _add_alternates(self) -> None:
        """For several instances: the hosts that would come next, after all have been counted; the same for each."""
        if len(self._picks) == 1 or not self._pipeline.alternates:
            return
        round_, kept = self._narrow(len(self._picks), log=False)
        if not round_.count:
            return
        wanted = self._pipeline.alternates + len(set(self._chosen_rows))
        ranked = scores.best(self._score(kept), min(wanted, round_.count))
        rows = [int(self._survivors[each]) for each in ranked]
        others = [row for row in rows if row not in self._chosen_rows]
        alternates = self._places(others[: self._pipeline.alternates])
        self._picks = [dataclasses.replace(pick, alternates=alternates) for pick in self._picks]

    def _places(self, rows: Sequence[int]) -> list[Place]:
        """These rows, with the limits that the filters set for them."""
        if not rows:
            return []
        chosen = self._all.subset(numpy.array(rows))
        limits = [dict(self._all.limits_written(row)) for row in rows]
        for each in self._limiting:
            asked = self._supervision.ask("Filter", each, _limits, each, chosen, self._request)
            for name, values in (asked or {}).items():
                for limit, value in zip(limits, values.tolist(), strict=True):
                    # Not a number, the one thing that differs from itself, means no limit.
                    limit.update({} if value != value else {name: value})
        return [Place(*self._all.key(row), limit) for row, limit in zip(rows, limits, strict=True)]


def _limits(each: ColumnFilter, hosts: Candidates, request: RequestSpec) -> dict[str, numpy.ndarray]:
    """:raises WrongAnswer: not one limit per host under each name"""
    limits = each.limits(hosts, request)
    for name, values in limits.items():
        if not isinstance(values, numpy.ndarray) or values.shape != (len(hosts),):
            raise WrongAnswer(f"gave {values!r:.80} as the limit {name}, where an array of {len(hosts)} is wanted")
    return limits


def plugin_properties(
    pipeline: Pipeline, request: RequestSpec, context: object, config_options: Mapping[str, Any]
) -> dict[str, Any]:
    """``filter_properties`` as nova hands it to filters: the sender's, completed. Built if someone reads it."""
    if pipeline.columns_only:
        return {}
    return {
        **request.filter_properties,
        "context": context,
        one_host.REQUEST: request,
        "request_spec": request.request_spec,
        "instance_type": request.request_spec.get("instance_type"),
        "config_options": config_options,
    }
