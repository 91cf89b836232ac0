# SPDX-License-Identifier: Apache-2.0
"""The input and the result of ``fleet rebalance``: the goal, and the moves.

:mod:`scheduler.compute.planning.rebalance` plans them, and :mod:`fleet_cli.planning.rebalance` prints and makes them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from fleet.capacity import shown
from fleet.objects.tolerance import Tolerance
from fleet.objects.whatif import Demand

#: Entry points (conf, state, goal, request of an instance, tick) -> plan; ``fleet`` imports no service.
ENTRY_POINTS = "fleet.objects.rebalance"


#: What a plan is for.
FREE_HOSTS = "free hosts"
MAKE_ROOM = "make room"
BALANCE = "balance"
UNDO_SKEW = "undo skew"


@dataclasses.dataclass(frozen=True)
class Goal:
    """:param kind: FREE_HOSTS; MAKE_ROOM for the instances of ``room_for``; BALANCE: the fullest hosts become less full;
    or UNDO_SKEW: no host is fuller than the mean by more than ``within``, with the least that moves

    :param most_moves: the plan has at most so many moves
    :param free_hosts: stop when so many hosts are free; None for as many as possible
    :param room_for: one request for all instances that shall fit
    :param within: share of a host's capacity
    :param limit_s: seconds of the search
    :param promised: losses that are survived now are survived in every state of the plan
    """

    most_moves: int
    kind: str = FREE_HOSTS
    free_hosts: int | None = None
    room_for: Demand | None = None
    within: float = 0.1
    limit_s: float = 10.0
    promised: Sequence[Tolerance] = ()


@dataclasses.dataclass(frozen=True)
class Move:
    """A migration of one instance, and what it costs: the memory and disk that its destination must take over.

    :param purpose: what the move is for, as users read it
    :param step: the moves of a step may be under way together; those of the next need what these leave
    """

    instance_uuid: str
    source: str
    destination: str
    vcpus: int
    memory_mb: int
    disk_gb: int
    purpose: str
    step: int = 1


#: Differences that come from sums of fractions.
_EXACT = 1e-6


@dataclasses.dataclass(frozen=True)
class Measure:
    """One number that a plan reaches, and the bound that no plan can pass.

    :param what: the quantity, as users read it: ``hosts freed``
    :param bound: the most that any plan can reach if ``is_most``, else the least; None if it is not known
    :param now: before the plan; None: that says nothing
    """

    what: str
    reached: float
    bound: float | None = None
    is_most: bool = False
    now: float | None = None

    @property
    def gap(self) -> float:
        """The distance from the bound, as a share of the bound. 0 if no plan is better, or no bound is known."""
        if self.bound is None:
            return 0.0
        missing = self.bound - self.reached if self.is_most else self.reached - self.bound
        if missing <= _EXACT:
            return 0.0
        return missing / self.bound if self.bound else 1.0

    def is_as_good_as(self, other: Measure) -> bool:
        """Return True if no less of the same quantity is reached than with another plan."""
        better = self.reached - other.reached if self.is_most else other.reached - self.reached
        return better >= -_EXACT

    def __str__(self) -> str:
        before = "" if self.now is None else f" ({shown(round(self.now, 1))} now)"
        reached = f"{shown(round(self.reached, 1))}{before}"
        if self.bound is None:
            return f"{self.what}: {reached}"
        # A bound is rounded so that it stays one.
        word, away = ("at most", math.ceil) if self.is_most else ("at least", math.floor)
        bound = shown(away(10 * self.bound + (-_EXACT if self.is_most else _EXACT)) / 10)
        if (self.reached > self.bound + _EXACT) if self.is_most else (self.reached < self.bound - _EXACT):
            return f"{self.what}: {reached}; {word} {bound} by any plan that reaches the goal"
        told = f"gap {100 * self.gap:.1f} %" if self.gap else "the plan is the best there is"
        return f"{self.what}: {reached}; {word} {bound} by any plan; {told}"


@dataclasses.dataclass(frozen=True)
class Plan:
    """Moves in the order in which to make them.

    :param hosts: number of hosts
    :param empty_before: how many hosts have no instance now
    :param measures: of the goal, the most important first
    :param freed: hosts that the moves leave without an instance
    :param fits: how many of the goal's new instances fit afterwards
    :param kept: hosts that were tried and cannot be freed, or be given room, with the reason
    :param staying: how many guests the planner leaves where they are, though they could move; so does "any plan"
    :param dropped: moves of the search that no order allows, or that the filters refuse, with the reason
    :param ends: why the plan has no more moves of the search; ""
    """

    moves: Sequence[Move]
    hosts: int
    empty_before: int
    measures: Sequence[Measure] = ()
    freed: Sequence[str] = ()
    fits: int = 0
    staying: int = 0
    kept: Mapping[str, str] = dataclasses.field(default_factory=dict)
    dropped: Mapping[str, str] = dataclasses.field(default_factory=dict)
    ends: str = ""
