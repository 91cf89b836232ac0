# SPDX-License-Identifier: Apache-2.0
"""The part of the scheduler that admission calls: the free amounts of nodes, the nodes that pass, and further decisions.

:mod:`scheduler.compute.drivers.filter_scheduler` hands it to :mod:`scheduler.compute.tolerance.admission`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any

import numpy

from fleet import states
from fleet.objects import Aggregate, RequestSpec
from scheduler.compute.domain.request_key import request_key
from scheduler.compute.domain.tracked_instance import TrackedInstance
from scheduler.compute.tolerance import amounts, requests
from scheduler.compute.tolerance.kept import Amount, Node
from scheduler.engine import filtering, pipeline
from scheduler.engine.decision import Decision
from scheduler.engine.hosts import restriction
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.consumption import built
from scheduler.engine.hosts.table import CHANGED_AT
from scheduler.engine.pipeline import Pipeline

#: Answers of the filters that are remembered. They are of few nodes: those that keep room for losses.
_REMEMBERED = 4096


@dataclasses.dataclass(frozen=True)
class _Answer:
    """:param changed_at, epoch: of the row and of the table, when the filters judged it"""

    passes: bool
    changed_at: int
    epoch: int


class Fleet:
    def __init__(
        self,
        configured: Callable[[], Pipeline],
        consider: Callable[[Callable[[Candidates, Any], Any]], Any],
        decide: Callable[[RequestSpec], Decision],
        look: Callable[[RequestSpec], Decision],
        release: Callable[[Sequence[str]], object],
    ) -> None:
        """:param decide: decides and books; ``look`` decides only
        :param release: drops bookings
        """
        self.pipeline = configured
        self.consider = consider
        self.decide = decide
        self.look = look
        self.release = release
        self._judged_by: Pipeline | None = None
        self._answers: dict[Hashable, _Answer] = {}

    def free(self, nodes: Collection[Node]) -> dict[Node, Amount]:
        """Return the free amounts of these nodes, beside all bookings. Nodes that have gone are left out."""
        if not nodes:
            return {}

        def read(candidates: Candidates, _state: Any) -> dict[Node, Amount]:
            row_of = {node: row for node in nodes if (row := candidates.row_of(node)) is not None}
            some = candidates.subset(numpy.array([*row_of.values()], dtype=int))
            found = map(tuple, amounts.free(self.pipeline(), some).tolist())
            return dict(zip(row_of, found, strict=True))

        found: dict[Node, Amount] = self.consider(read)
        return found

    def hosts(self) -> set[str]:
        """Return the names of all hosts."""

        def read(candidates: Candidates, _state: Any) -> set[str]:
            keys = candidates.keys()
            return {key[0] for key in keys if key is not None}

        found: set[str] = self.consider(read)
        return found

    def aggregates(self) -> list[Aggregate]:
        found: list[Aggregate] = self.consider(lambda candidates, _state: candidates.all_aggregates())
        return found

    def there(self, placed: Collection[tuple[str, Node]]) -> set[tuple[str, Node]]:
        """Return, of instances and nodes, those that a booking or the database shows there, or on the way there."""

        def read(candidates: Candidates, _state: Any) -> set[tuple[str, Node]]:
            shown = candidates.places_of(uuid for uuid, _node in placed)
            return {
                (uuid, node) for uuid, node in placed if (uuid, node[0]) in shown or _is_moving(candidates.placed(uuid))
            }

        found: set[tuple[str, Node]] = self.consider(read)
        return found

    def shown(self, uuid: str) -> TrackedInstance | None:
        """Return where the database shows an instance; None if on no host. While it moves, that is the host it leaves."""
        found: TrackedInstance | None = self.consider(lambda candidates, _state: candidates.placed(uuid))
        return None if found is None or found.is_only_booked else found

    def passing(self, request: RequestSpec, nodes: Iterable[Node]) -> Node | None:
        """The first of these nodes that passes all filters. No other host is judged.

        The answer for a row that has not changed since is remembered, if the filters may be remembered at all.
        """
        configured = self.pipeline()
        if configured is not self._judged_by:
            self._judged_by = configured
            self._answers.clear()
        is_open = not configured.cacheable or restriction.is_restricted(request)
        key = None if is_open else request_key(request)
        prepared = None if key is not None else pipeline.prepare(configured, request)

        def read(candidates: Candidates, _state: Any) -> Node | None:
            passing = (node for node in nodes if self._passes(request, prepared, key, candidates, node))
            return next(passing, None)

        found: Node | None = self.consider(read)
        return found

    def fit_together(self, wanted: Sequence[RequestSpec], node: Node) -> bool:
        """Return True if the node takes these instances one after the other. The rules of their groups are not judged."""
        configured = self.pipeline()

        def read(candidates: Candidates, _state: Any) -> bool:
            row = candidates.row_of(node)
            if row is None:
                return False
            rows: numpy.ndarray = numpy.array([row], dtype=int)
            some = candidates.subset(rows)
            for each in map(requests.without_group, wanted):
                ready = pipeline.prepare(configured, each)
                if not filtering.run(ready, some, restriction.allowed(some, each)).alive[0]:
                    return False
                some = some.with_one_more(rows, rows, built(ready.consumption))
            return True

        found: bool = self.consider(read)
        return found

    def _passes(
        self, request: RequestSpec, prepared: Any, key: Hashable | None, candidates: Candidates, node: Node
    ) -> bool:
        row = candidates.row_of(node)
        if row is None:
            return False
        changed_at = int(candidates.column(CHANGED_AT)[row])
        known = self._answers.get((key, node)) if key is not None else None
        if known is not None and (known.changed_at, known.epoch) == (changed_at, candidates.epoch):
            return known.passes
        some = candidates.subset(numpy.array([row], dtype=int))
        ready = prepared or pipeline.prepare(self.pipeline(), request)
        passes = bool(filtering.run(ready, some, restriction.allowed(some, request)).alive[0])
        if key is not None:
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            self._answers[key, node] = _Answer(passes, changed_at, candidates.epoch)
        return passes


def _is_moving(instance: TrackedInstance | None) -> bool:
    """Return True if the destination has claimed a move. The database shows the instance on the host that it leaves."""
    return instance is not None and instance.task_state in states.CLAIMED_MOVES
