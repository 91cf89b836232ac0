# SPDX-License-Identifier: Apache-2.0
"""Places for the guests of a wave, on copies of the fleet that have the moves of the waves before.

Called by :mod:`scheduler.compute.planning.waves`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Sequence

from fleet.db.feed.feed import Changes
from fleet.objects.rebalance import Move
from fleet.objects.waves import Wave
from scheduler.compute.planning.ground import Ground, Movable, as_move, elsewhere
from scheduler.planning.copied_fleet import CopiedFleet
from scheduler.planning.hypothetical import changed


class Places:
    """Places for the guests of a wave: on hosts that have had their turn or need none, and only then on the others.

    Two copies of the fleet have the same bookings: ``near`` with the hosts whose turn is still to come disabled, and
    ``far``, which most waves do not ask.
    """

    def __init__(self, ground: Ground, fleet: CopiedFleet, left: Collection[str]) -> None:
        waiting, state = frozenset(left), ground.state
        services = [changed(each, disabled=True) if each.host in waiting else each for each in state.services]
        near = ground.copy(dataclasses.replace(state, services=services))
        #: Of the near copy: in the first wave of the whole fleet there is none.
        self._has_near = bool(near.hosts_up())
        self._near, self._far = _Followed(near), _Followed(fleet)

    def far(self) -> CopiedFleet:
        return self._far.now()

    def take(self, guest: Movable, wave: Sequence[str], to: str | None = None) -> Move | str:
        """Find and book a host outside the wave. Return why no host passes, if none does.

        :param to: the only host to look at; None: all
        """
        decided, other = elsewhere(self._near.now(), guest) if self._has_near and not to else None, self._far
        if decided is None or not decided.complete:
            decided, other = elsewhere(self._far.now(), guest, wave, to), self._near
        if not decided.complete:
            return decided.reason
        other.later(functools.partial(CopiedFleet.book, decision=decided))
        return as_move(guest, decided.picks[0].key[0], f"empty {guest.host}")

    def release(self, moves: Iterable[Move]) -> None:
        for each in moves:
            for fleet in (self._near, self._far):
                fleet.later(functools.partial(CopiedFleet.release, instance_uuid=each.instance_uuid))

    def follow(self, wave: Wave, now: Changes) -> None:
        """Make a wave's moves, and give its hosts guests again.

        :param now: the rows of its hosts and guests
        """
        self.release(wave.moves)
        had_turn = [each for each in now.services if each.host in wave.hosts]
        near = dataclasses.replace(now, services=had_turn)
        self._near.later(lambda fleet: fleet.change(lambda cache: cache.apply(near)))
        self._far.later(lambda fleet: fleet.change(lambda cache: cache.apply(now)))
        self._has_near = True


class _Followed:
    """A copy of the fleet whose changes are made when it is asked: there may be none that asks."""

    def __init__(self, fleet: CopiedFleet) -> None:
        self._fleet = fleet
        self._due: list[Callable[[CopiedFleet], object]] = []

    def later(self, change: Callable[[CopiedFleet], object]) -> None:
        self._due.append(change)

    def now(self) -> CopiedFleet:
        """Return the copy with all changes made."""
        for change in self._due:
            change(self._fleet)
        self._due.clear()
        return self._fleet
