# SPDX-License-Identifier: Apache-2.0
"""Makes the moves of a plan: migrations to chosen hosts, a few at a time.

A cold one is confirmed when it has finished. Called by :mod:`fleet_cli.planning.rebalance`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Set

from fleet import errors, move_states
from fleet.client import patience
from fleet.client.calls import Calls
from fleet.client.connection import Record
from fleet.objects.answers.instances import MigrationView
from fleet.objects.rebalance import Move

_PAUSE_S = 0.5


class MoveList:
    """One run. After :meth:`stop` no further move begins; those under way are finished and confirmed.

    :param is_proved: each state of the plan keeps a promise. After a move that fails the next steps would lead through other
        states, so they do not begin
    :param cold: the instances that are switched off for their moves; the others move while they run
    :param on_progress: called with the number of ended moves, and the moves on their way
    """

    def __init__(
        self,
        conductor: Calls,
        moves: Sequence[Move],
        at_a_time: int,
        on_progress: Callable[[int, str], object],
        cold: Set[str] = frozenset(),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        is_proved: bool = False,
    ) -> None:
        self._conductor = conductor
        self._waiting = list(moves)
        self._at_a_time = at_a_time
        self._on_progress = on_progress
        self._cold = cold
        self._clock = clock
        self._sleep = sleep
        self._is_proved = is_proved
        self._step = 0
        #: Migration → the move, while it is on its way.
        self._under_way: dict[str, Move] = {}
        self._confirmed: set[str] = set()
        #: Of those, the ones that a conductor may not have heard of.
        self._unsure: set[str] = set()
        self.done = 0
        #: Instance → why it was not moved.
        self.failed: dict[str, str] = {}

    @property
    def begun(self) -> int:
        return len(self._under_way) + self.done + len(self.failed)

    @property
    def under_way(self) -> Sequence[str]:
        """The instances that are on their way."""
        return [each.instance_uuid for each in self._under_way.values()]

    def stop(self) -> None:
        self._waiting = []

    def run(self, timeout_s: float) -> None:
        """Make the moves. After ``timeout_s`` none begins, and those :attr:`under_way` are finished and confirmed.

        :raises oslo_messaging.MessagingException, Unreachable: no conductor has answered for some time
        """
        deadline = self._clock() + timeout_s
        while self._waiting or self._under_way:
            if self._clock() >= deadline:
                self.stop()
            while self._may_begin():
                self._begin(self._waiting.pop(0))
            self._look()
            if self._under_way:
                self._sleep(_PAUSE_S)

    def _may_begin(self) -> bool:
        """Return whether the next move may begin: it needs what all moves of the steps before it leave."""
        if not self._waiting or len(self._under_way) >= self._at_a_time:
            return False
        if self._is_proved and self.failed and self._waiting[0].step > self._step:
            self.stop()
            return False
        return all(each.step >= self._waiting[0].step for each in self._under_way.values())

    def _begin(self, move: Move) -> None:
        self._step = move.step
        try:
            operator = self._conductor.operator
            migrate = operator.migrate_instance if move.instance_uuid in self._cold else operator.live_migrate_instance
            record = migrate(name=move.instance_uuid, host=move.destination)
        except errors.FleetError as refusal:
            self.failed[move.instance_uuid] = refusal.message
            return
        except patience.AWAY as away:
            self.failed[move.instance_uuid] = (
                f"it is not known whether its move has begun ({away}): see 'fleet migration list'"
            )
            self.stop()
            return
        self._under_way[record["uuid"]] = move

    def _look(self) -> None:
        found = patience.patiently(self._read, self._clock, self._sleep, lambda: self._tell(patience.SILENCE))
        for each in found:
            if each["status"] == move_states.FINISHED:
                self._confirm(each)
            elif each["status"] not in move_states.UNDER_WAY:
                self._ended(each)
        doing = ", ".join(
            sorted(f"{each['instance_uuid'][:8]} {each['status']}" for each in found if each["uuid"] in self._under_way)
        )
        self._tell(doing)

    def _read(self) -> list[MigrationView]:
        if not self._under_way:
            return []
        return self._conductor.operator.list_migrations(filters={"uuids": list(self._under_way)})

    def _tell(self, doing: str) -> None:
        failed = [f"{len(self.failed)} failed"] if self.failed else []
        self._on_progress(self.done + len(self.failed), ", ".join([*failed, *([doing] if doing else [])]))

    def _confirm(self, record: Record) -> None:
        if record["uuid"] in self._confirmed - self._unsure:
            return
        self._confirmed.add(record["uuid"])
        self._unsure.discard(record["uuid"])
        try:
            self._conductor.operator.confirm_resize(name=record["instance_uuid"])
        except patience.AWAY:
            self._unsure.add(record["uuid"])
        except errors.FleetError as refusal:
            del self._under_way[record["uuid"]]
            self.failed[record["instance_uuid"]] = refusal.message

    def _ended(self, record: Record) -> None:
        move = self._under_way.pop(record["uuid"])
        confirmed = record["uuid"] in self._confirmed and record["status"] != move_states.ERROR
        if confirmed or record["status"] == move_states.COMPLETED:
            self.done += 1
            return
        failure = record.get("failure") or {}
        self.failed[move.instance_uuid] = failure.get("message") or f"its move is {record['status']}"
