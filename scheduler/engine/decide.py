# SPDX-License-Identifier: Apache-2.0
"""A decision: filter, weigh, then pick and consume for each instance. :func:`decide` shows the order.

Called by :mod:`scheduler.state.decider`, :mod:`scheduler.state.survey` and :mod:`scheduler.planning.copied_fleet`. A
decision is a function of its arguments: a prepared request and hosts in, picks and reasons out. Nothing is read, sent
or stored.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Sequence

import numpy
from oslo_log import log as logging

from fleet.objects import Place
from scheduler.engine import filtering
from scheduler.engine.decision import Decision, Pick, Refusal, Refused, StateAge
from scheduler.engine.evaluation import Evaluation
from scheduler.engine.hosts import restriction
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.names import Wire
from scheduler.engine.pipeline import Pipeline
from scheduler.engine.prepared_request import PARSED, PreparedRequest
from scheduler.engine.request_cache import RequestCache
from scheduler.engine.share import Share
from scheduler.engine.weighing import lottery
from scheduler.engine.weighing.weighing import OUT

LOG = logging.getLogger(__name__)
#: Up to this number of best hosts, searching again for each is faster than a partition.
_FEW = 6


def decide(
    pipeline: Pipeline,
    prepared: PreparedRequest,
    hosts: Candidates,
    chance: random.Random,
    log: bool = True,
    cache: RequestCache | None = None,
    best: int = 0,
    state: StateAge | None = None,
) -> Decision:
    """Pick a host for each instance of the request, one after the other, until no host is left.

    :param log: False for a dry run: refusals are logged at level debug only
    :param cache: evaluations of earlier requests, by this pipeline over these hosts
    :param best: number of hosts in the score table of the first instance
    :param state: how old the host states are, for the decision record
    :raises errors.PluginFailed: a filter or weigher misbehaved, and the configuration does not skip it
    """
    cache = RequestCache() if cache is None else cache
    evaluation = cache.take(prepared.cache_key)
    evaluation.refresh(prepared, hosts, restriction.allowed(hosts, prepared.request))  # filter and weigh
    picking = _Picking(pipeline, prepared, hosts, evaluation, chance, log)
    scores = picking.score_table(best)
    while picking.wanted and evaluation.alive_count:
        picking.pick()
        picking.consume()  # filter and weigh again what the pick has changed
    decision = picking.decision(scores, state)
    if not prepared.supervision.remarks:  # a plugin that was left out, or slow, is called again next time
        cache.keep(prepared.cache_key, evaluation)
    return decision


@dataclasses.dataclass(frozen=True)
class _Chosen:
    """The row picked for an instance, its score at that moment, and the runners-up."""

    uuid: str
    row: int
    weight: float
    others: Sequence[int]


class _Picking:
    """The picks of one request so far. :param hosts: the whole table"""

    def __init__(
        self,
        pipeline: Pipeline,
        prepared: PreparedRequest,
        hosts: Candidates,
        evaluation: Evaluation,
        chance: random.Random,
        log: bool,
    ) -> None:
        self._pipeline = pipeline
        self._prepared = prepared
        self._hosts = hosts
        self._evaluation = evaluation
        self._chance = chance
        self._log = log
        self._requested = prepared.request.num_instances
        self._considered = evaluation.considered
        self._chosen: list[_Chosen] = []
        own = hosts.own()
        self._share = None if own is None else Share(own, hosts, evaluation, self._requested)

    @property
    def wanted(self) -> int:
        """The number of instances that have no host yet."""
        return int(self._requested) - len(self._chosen)

    def pick(self) -> None:
        """Choose a host for the next instance."""
        single, alternates = self._requested == 1, self._pipeline.alternates
        subset_size = max(1, self._pipeline.host_subset_size)
        shuffle = self._chance if self._pipeline.shuffle_best_same_weighed_hosts else None
        wanted = subset_size + (alternates if single else 0)
        ranked, preferred = (self._draw(wanted), 1) if self._pipeline.lottery else self._ranked(wanted, shuffle)
        subset = ranked[: min(subset_size, preferred)]
        row = subset[0] if len(subset) == 1 else self._chance.choice(subset)
        if self._share is not None:
            self._share.count(row)
        others = self._others(row, ranked, shuffle) if single else []
        uuids, number = self._prepared.request.instance_uuids, len(self._chosen)
        uuid = uuids[number] if number < len(uuids) else f"unnamed-{number}"
        self._chosen.append(_Chosen(uuid, row, float(self._evaluation.scores[row]), others))
        LOG.debug("Selected host: %s for instance %s, weight %s", self._hosts.key(row), uuid, self._chosen[-1].weight)

    def _others(self, row: int, ranked: Sequence[int], shuffle: random.Random | None) -> list[int]:
        """Return the alternates for a request of one instance.

        :param ranked: the best hosts for the pick. They are ranked again if alternates must share columns with the pick
        """
        alternates, among = self._pipeline.alternates, self._alike(row)
        if among is not None:
            ranked, _preferred = self._ranked(alternates + 1, shuffle, among)
        return [each for each in ranked if each != row][:alternates]

    def _alike(self, row: int) -> numpy.ndarray | None:
        """Return a mask of the rows that may be alternates of a pick; None if all may."""
        shared = self._pipeline.domain.layout.alternates_share
        return None if shared is None or not self._pipeline.alternates else self._hosts.sharing(shared, row)

    def consume(self) -> None:
        """Count the newest pick for the rest of the request, and judge again what it has changed."""
        if not self.wanted and (self._requested == 1 or not self._pipeline.alternates):
            return  # the last pick: no later step of this request reads the hosts
        chosen, prepared, evaluation = self._chosen[-1], self._prepared, self._evaluation
        self._hosts.pick(chosen.row, chosen.uuid, prepared.consumption, prepared.request)
        request = prepared.request
        if request.group_updated:
            grown = request.group_hosts | {self._hosts.key(chosen.row)[0]}
            prepared.request = dataclasses.replace(request, group_hosts=grown)
            prepared.properties.update({"group_hosts": set(grown), PARSED: prepared.request})
        evaluation.follow_pick(prepared, self._hosts, chosen.row, self._likely)

    def _likely(self) -> list[int]:
        """Return the rows that may be picked next."""
        return self._ranked(self._evaluation.worth_judging(self._prepared, self.wanted))[0]

    def _ranked(
        self, count: int, shuffle: random.Random | None = None, among: numpy.ndarray | None = None
    ) -> tuple[list[int], int]:
        """Return the rows of the ``count`` best hosts, and how many of them to choose among.

        The hosts of the scheduler's own share come first.

        :param among: a mask of the rows to rank; None for all
        """
        inside = None if self._share is None else self._share.scores()
        if inside is None:
            best = self._best(count, shuffle, among)
            return best, len(best)
        if among is not None:
            inside = numpy.where(among, inside, OUT)
        preferred = min(count, int(numpy.count_nonzero(inside != OUT)))
        found: list[int] = best_rows(inside, preferred, shuffle).tolist()
        if preferred < count:
            found += [row for row in self._best(count, among=among) if row not in found][: count - preferred]
        return found, preferred

    def _draw(self, count: int) -> list[int]:
        """Return a row that is drawn by the scores, and the rows that follow it."""
        return lottery.draw(self._evaluation.scores, count, self._chance)

    def _best(self, count: int, shuffle: random.Random | None = None, among: numpy.ndarray | None = None) -> list[int]:
        """Return the rows of the ``count`` best hosts that are alive, best first."""
        scores, alive_count = self._evaluation.scores, self._evaluation.alive_count
        if among is not None:
            scores = numpy.where(among, scores, OUT)
            alive_count = int(numpy.count_nonzero(scores != OUT))
        found: list[int] = best_rows(scores, min(count, alive_count), shuffle).tolist()
        return found

    # -- the result -------------------------------------------------------------------------------------------------

    def decision(self, scores: Sequence[Wire], state: StateAge | None) -> Decision:
        prepared = self._prepared
        self._log_counts()
        return Decision(
            requested=self._requested,
            considered=self._considered,
            picks=self._picks(),
            tally=self._evaluation.tally(prepared.filters),
            consumption=prepared.consumption,
            request=prepared.request,
            refusal=self._refusal() if self.wanted else None,
            remarks=prepared.supervision.remarks,
            state=state,
            scores=scores,
            share=None if self._share is None else self._share.use(),
        )

    def score_table(self, count: int) -> list[Wire]:
        """Return how the ``count`` best hosts for the first instance come to their weights, in the order of choice."""
        if not count:
            return []
        rows, _preferred = self._ranked(count)
        ordered = sorted(rows)
        lines = dict(zip(ordered, self._evaluation.table(self._prepared, self._hosts, ordered), strict=True))
        keys = {row: self._hosts.key(row) for row in rows}
        return [
            {
                "host": keys[row][0],
                "nodename": keys[row][1],
                "weight": float(self._evaluation.scores[row]),
                "weighers": lines[row],
            }
            for row in rows
        ]

    def _refusal(self) -> Refusal:
        prepared = self._prepared
        drops = self._evaluation.drops(prepared.filters) if self._considered else []
        if LOG.isEnabledFor(logging.DEBUG):
            for drop in drops:
                LOG.debug("Filter %s dropped %s", type(drop.by).__name__, [self._hosts.key(row) for row in drop.rows])
        about = prepared.request, prepared.filters, drops, self._considered, prepared.supervision
        return self._pipeline.explain_refusal(Refused(self._hosts, *about))

    def _picks(self) -> list[Pick]:
        """Return the picks with limits and alternates."""
        alternates = self._next_best() if len(self._chosen) > 1 else [each.others for each in self._chosen]
        rows = list(dict.fromkeys([*(each.row for each in self._chosen), *itertools.chain(*alternates)]))
        places = dict(zip(rows, self._places(rows), strict=True))
        return [
            Pick(
                each.uuid,
                self._hosts.key(each.row),
                places[each.row].limits or {},
                each.weight,
                [places[row] for row in others],
            )
            for each, others in zip(self._chosen, alternates, strict=True)
        ]

    def _next_best(self) -> list[Sequence[int]]:
        """Return the alternates of each pick: the best hosts after all picks are counted. Several picks may share them.

        There are none if not all instances found a host.
        """
        count = self._pipeline.alternates
        if not count or self.wanted:
            return [()] * len(self._chosen)
        taken = {each.row for each in self._chosen}
        shared = self._pipeline.domain.layout.alternates_share
        kinds = [None if shared is None else self._hosts.shared(each.row, shared) for each in self._chosen]
        found: dict[object, Sequence[int]] = {}
        for each, kind in zip(self._chosen, kinds, strict=True):
            if kind not in found:
                ranked, _preferred = self._ranked(count + len(taken), among=self._alike(each.row))
                found[kind] = [row for row in ranked if row not in taken][:count]
        return [found[kind] for kind in kinds]

    def _places(self, rows: Sequence[int]) -> list[Place]:
        """Return these rows with the limits that the filters set for them."""
        if not rows:
            return []
        prepared = self._prepared
        chosen = self._hosts.subset(numpy.array(rows))
        written = [self._hosts.limits.written(row) for row in rows]
        limits = [dict(each.limits) for each in written]
        for position, each in () if restriction.is_forced(prepared.request) else self._pipeline.limiting:
            asked = prepared.supervision.ask("Filter", each, filtering.limits, each, chosen, prepared.request)
            for name, values in (asked or {}).items():
                for limit, before, value in zip(limits, written, values.tolist(), strict=True):
                    # NaN, the one value that differs from itself, means no limit.
                    if position > before.position and value == value:
                        limit[name] = value
        return [Place(*self._hosts.key(row), limit) for row, limit in zip(rows, limits, strict=True)]

    def _log_counts(self) -> None:
        if not self.wanted and not LOG.isEnabledFor(logging.DEBUG):
            return
        for each in self._evaluation.tally(self._prepared.filters).counts():
            LOG.debug("Filter %s returned %d host(s)", each.name, each.end)
            if not each.end and each.start and self.wanted:
                LOG.log(logging.INFO if self._log else logging.DEBUG, "Filter %s returned 0 hosts", each.name)


def best_rows(scores: numpy.ndarray, count: int, shuffle: random.Random | None = None) -> numpy.ndarray:
    """Return the positions of the ``count`` highest scores, best first, equal ones in their order. No full sort.

    Rows are in the order of their keys, so of equal hosts the one with the smallest key comes first.

    :param scores: written to meanwhile, and then restored
    :param shuffle: puts the hosts that share the highest score in random order, so that equal hosts take turns
    """
    if shuffle is not None:
        return _best_shuffled(scores, count, shuffle)
    if count == 1:
        return numpy.array([scores.argmax()])
    if count >= len(scores):
        return numpy.argsort(-scores, kind="stable")
    if count <= _FEW:
        return _best_few(scores, count)
    threshold = numpy.partition(scores, len(scores) - count)[len(scores) - count]
    above = numpy.flatnonzero(scores > threshold)
    equal = numpy.flatnonzero(scores == threshold)[: count - len(above)]
    return numpy.concatenate((above[numpy.argsort(-scores[above], kind="stable")], equal))


def _best_few(scores: numpy.ndarray, count: int) -> numpy.ndarray:
    """Take the first highest score again and again: for a few hosts far cheaper than a partition, or than a copy."""
    found: list[int] = []
    values: list[float] = []
    for _number in range(count):
        found.append(int(scores.argmax()))
        values.append(scores[found[-1]])
        scores[found[-1]] = -numpy.inf
    for position, value in zip(reversed(found), reversed(values), strict=True):
        scores[position] = value
    return numpy.array(found, dtype=numpy.intp)


def _best_shuffled(scores: numpy.ndarray, count: int, chance: random.Random) -> numpy.ndarray:
    equal = numpy.flatnonzero(scores == scores.max()).tolist()
    chance.shuffle(equal)
    if len(equal) >= count:
        return numpy.array(equal[:count])
    return numpy.concatenate((equal, best_rows(scores, count)[len(equal) :]))
