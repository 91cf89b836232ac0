# SPDX-License-Identifier: Apache-2.0
"""Request and candidates in, ranked picks and reasons out; nothing is read, sent or kept."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import numpy
from oslo_log import log as logging

from fleet.objects import Place
from scheduler.compute import one_host
from scheduler.engine import filtering, restriction, scores
from scheduler.engine.candidates import Candidates
from scheduler.engine.outcome import Decision, Pick, StateAge
from scheduler.engine.pipeline import Prepared
from scheduler.engine.shapes import Shapes
from scheduler.engine.standing import Judgement, Standing
from scheduler.why import refusal

LOG = logging.getLogger(__name__)
#: Of so many hosts at once it is foreseen what they are with one instance more.
_FORESEEN = 32


def decide(
    prepared: Prepared,
    hosts: Candidates,
    chance: random.Random,
    log: bool = True,
    shapes: Shapes | None = None,
    best: int = 0,
    state: StateAge | None = None,
) -> Decision:
    """Pick a host for each instance of the request, one after the other, until no host is left.

    :param log: False for a dry run, which is no news
    :param shapes: what was found out for earlier requests, by this pipeline about these hosts
    :param best: of how many hosts, the best for the first instance, to tell how they came to their scores
    :param state: how old what is known of the hosts is, to be told with the decision
    :raises errors.PluginFailed: a filter or weigher misbehaved, and is not to be skipped
    """
    inquiry = prepared.inquiry
    standing = Standing() if shapes is None else shapes.take(prepared.shape)
    standing.bring_up(inquiry, hosts, restriction.allowed(hosts, inquiry.request))
    decision = _Course(prepared, hosts, standing, chance).run(log, best, state)
    if shapes is not None and not inquiry.supervision.remarks:  # a plugin left out, or slow, is to be asked again
        shapes.keep(prepared.shape, standing)
    return decision


class _Course:
    """One decision under way: how the hosts stand, and the request as its picks have changed it."""

    def __init__(self, prepared: Prepared, hosts: Candidates, standing: Standing, chance: random.Random) -> None:
        self._pipeline = prepared.pipeline
        self._all = hosts
        self._inquiry = prepared.inquiry
        self._standing = standing
        self._chance = chance
        self._amounts = prepared.amounts
        self._chosen: list[_Chosen] = []
        #: What would be said of a row with one instance more on it.
        self._foreseen: dict[int, Judgement] = {}

    def run(self, log: bool, best: int, state: StateAge | None) -> Decision:
        requested = self._inquiry.request.num_instances
        considered = self._standing.considered
        table = self._score_table(best)
        self._tell(log)
        while len(self._chosen) < requested and self._standing.alive_count:
            self._choose()
            left = requested - len(self._chosen)
            if left or (requested > 1 and self._pipeline.alternates):
                self._count(left)
                self._tell(log and left > 0)
        complete = len(self._chosen) == requested
        return Decision(
            requested=requested,
            considered=considered,
            picks=self._picks(),
            tally=self._standing.tally(self._inquiry.filters),
            amounts=self._amounts,
            refusal=None if complete else self._refusal(considered),
            remarks=self._inquiry.supervision.remarks,
            state=state,
            instance_type_id=self._inquiry.request.flavor.id,
            scores=table,
        )

    def _tell(self, log: bool) -> None:
        if self._standing.alive_count and not LOG.isEnabledFor(logging.DEBUG):
            return
        for each in self._standing.tally(self._inquiry.filters).counts():
            LOG.debug("Filter %s returned %d host(s)", each.name, each.end)
            if not each.end and each.start:
                LOG.log(logging.INFO if log else logging.DEBUG, "Filter %s returned 0 hosts", each.name)

    def _refusal(self, considered: int) -> refusal.Refusal:
        if not considered:
            known = int(numpy.count_nonzero(self._all.present()))
            return refusal.of_none_considered(known, self._inquiry.request)
        filters = self._inquiry.filters
        drops = self._standing.drops(filters)
        if LOG.isEnabledFor(logging.DEBUG):
            for drop in drops:
                LOG.debug("Filter %s dropped %s", type(drop.by).__name__, [self._all.key(row) for row in drop.rows])
        inquiry = self._inquiry
        return refusal.of_drops(self._all, inquiry.request, filters, drops, considered, inquiry.supervision)

    def _score_table(self, count: int) -> list[dict[str, Any]]:
        """How the ``count`` best for the first instance come to their weights, best first."""
        if not count:
            return []
        rows = self._best(count)
        ordered = sorted(rows)
        lines = dict(zip(ordered, self._standing.table(self._inquiry, self._all, ordered), strict=True))
        keys = {row: self._all.key(row) for row in rows}
        return [
            {
                "host": keys[row][0],
                "nodename": keys[row][1],
                "weight": float(self._standing.total[row]),
                "weighers": lines[row],
            }
            for row in rows
        ]

    def _best(self, count: int, shuffle: random.Random | None = None) -> list[int]:
        """Rows of the ``count`` best that are alive, best first."""
        found: list[int] = scores.best(self._standing.total, min(count, self._standing.alive_count), shuffle).tolist()
        return found

    def _choose(self) -> None:
        single = self._inquiry.request.num_instances == 1
        subset_size = max(1, self._pipeline.host_subset_size)
        shuffle = self._chance if self._pipeline.shuffle_best_same_weighed_hosts else None
        ranked = self._best(subset_size + (self._pipeline.alternates if single else 0), shuffle)
        subset = ranked[:subset_size]
        row = subset[0] if len(subset) == 1 else self._chance.choice(subset)
        others = [each for each in ranked if each != row][: self._pipeline.alternates] if single else []
        uuids, number = self._inquiry.request.instance_uuids, len(self._chosen)
        uuid = uuids[number] if number < len(uuids) else f"unnamed-{number}"
        self._chosen.append(_Chosen(uuid, row, float(self._standing.total[row]), others))
        LOG.debug("Selected host: %s for instance %s, weight %s", self._all.key(row), uuid, self._chosen[-1].weight)

    def _count(self, left: int) -> None:
        """Let the rest of the request, of which ``left`` instances want a host, see the newest pick."""
        chosen = self._chosen[-1]
        self._all.pick(chosen.row, chosen.uuid, self._amounts)
        inquiry = self._inquiry
        if inquiry.request.group_updated:
            grown = inquiry.request.group_hosts | {self._all.key(chosen.row)[0]}
            inquiry.request = dataclasses.replace(inquiry.request, group_hosts=grown)
            inquiry.properties.update({"group_hosts": set(grown), one_host.REQUEST: inquiry.request})
        judgement = self._foreseen.pop(chosen.row, None) or self._foresee(chosen.row, left)
        self._standing.settle_pick(inquiry, self._all, chosen.row, judgement)

    def _foresee(self, picked: int, left: int) -> Judgement:
        """What is to be said of the picked row as it is now; and, by the way, of others that are likely to be picked.

        Asking about thirty hosts costs little more than asking about one.
        """
        # Numbers are counted for all at once, cells and devices host by host.
        most = 1 if self._amounts.rare else min(left + 1, _FORESEEN)
        others = [row for row in self._best(most) if row != picked and row not in self._foreseen]
        inquiry, standing = self._inquiry, self._standing
        if not others:
            return standing.judge_next(inquiry, self._all.subset(numpy.array([picked])))
        # The picked row has its instance counted already; the others are shown with theirs.
        rows = numpy.array([picked, *others])
        judged = standing.judge_next(inquiry, self._all.with_one_more(rows, rows[1:], self._amounts))
        self._foreseen.update({row: judged.of(number) for number, row in enumerate(others, 1)})
        return judged.of(0)

    def _picks(self) -> list[Pick]:
        """With the limits of each, and of the alternates: for several instances, those that would come next."""
        shared = self._next_ones() if len(self._chosen) > 1 else []
        rows = list(dict.fromkeys(row for each in self._chosen for row in (each.row, *each.others)))
        places = dict(zip(rows + shared, self._places(rows + shared), strict=True))
        alternates = [places[row] for row in shared]
        return [
            Pick(
                each.uuid,
                self._all.key(each.row),
                places[each.row].limits or {},
                each.weight,
                [places[row] for row in each.others] or alternates,
            )
            for each in self._chosen
        ]

    def _next_ones(self) -> list[int]:
        """After all have been counted; the same for each. None, if not all instances found a host."""
        wanted = self._pipeline.alternates
        if not wanted or len(self._chosen) < self._inquiry.request.num_instances:
            return []
        taken = {each.row for each in self._chosen}
        return [row for row in self._best(wanted + len(taken)) if row not in taken][:wanted]

    def _places(self, rows: Sequence[int]) -> list[Place]:
        """These rows, with the limits that the filters set for them."""
        if not rows:
            return []
        supervision, request = self._inquiry.supervision, self._inquiry.request
        chosen = self._all.subset(numpy.array(rows))
        written = [self._all.limits.written(row) for row in rows]
        limits = [dict(each.limits) for each in written]
        for position, each in self._pipeline.limiting if self._inquiry.filters else ():
            asked = supervision.ask("Filter", each, filtering.limits, each, chosen, request)
            for name, values in (asked or {}).items():
                for limit, before, value in zip(limits, written, values.tolist(), strict=True):
                    # Not a number, the one thing that differs from itself, means no limit.
                    if position > before.position and value == value:
                        limit[name] = value
        return [Place(*self._all.key(row), limit) for row, limit in zip(rows, limits, strict=True)]


@dataclasses.dataclass(frozen=True)
class _Chosen:
    """The row picked for an instance, the score for which it was, and the runners-up."""

    uuid: str
    row: int
    weight: float
    others: Sequence[int]
