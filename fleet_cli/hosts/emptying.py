# SPDX-License-Identifier: Apache-2.0
"""Moves the instances of a host away: live migrations if the host is up, evacuations if it is down.

Called by :mod:`fleet_cli.hosts.drain`, which decides once how a run moves them. A guest that cannot leave while it runs is
migrated cold if that is wanted: it is switched off, moved and started again. A shelved instance is offloaded.

A run whose host falls silent, or comes back, begins nothing more. An evacuation would rebuild guests that may still run, and
the run was announced as live migrations.

Nothing is stored here. Moves on their way are read from the ledger, so a second run continues an interrupted one.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence

from fleet import errors, move_states, states
from fleet.client import pages, patience, ways
from fleet.client.calls import Calls
from fleet.client.connection import Record
from fleet.objects.answers.instances import BriefInstance, MigrationView

_PAUSE_S = 0.5
_OFFLOAD = "shelve_offload_instance"
#: No conductor has answered the request for a move.
_UNSURE = "unsure"


@dataclasses.dataclass
class Look:
    """The present state of a host: instances to move, moves and offloads (by instance) on their way, and instances that
    stay, with the reason.

    :param is_down: no agent of the host sends heartbeats
    """

    is_down: bool
    movable: list[BriefInstance]
    moving: list[MigrationView]
    finished: list[MigrationView]
    left: dict[str, str]
    offloading: dict[str, str]


@dataclasses.dataclass(frozen=True)
class Result:
    """The end of a run.

    :param gone: number of instances that were moved
    :param left: the reason of each other one, by its uuid
    :param stopped: why the run began no more, and what to do; "" if it tried all
    """

    gone: int
    left: dict[str, str]
    stopped: str = ""


def is_down(conductor: Calls, host: str) -> bool:
    """Return True if no agent of the host sends heartbeats."""
    state, _status = conductor.operator.list_host_states(names=[host]).get(host, ("down", ""))
    return bool(state != "up")


class Emptying:
    """One run. Each instance is moved at most once; if its move is refused or fails, it stays, with the reason.

    :param evacuates: build the instances again on other hosts, because the host is down
    :param cold: move guests that cannot leave while they run, too
    :param on_progress: called with the number of moved instances, the total, and the moves on their way
    """

    def __init__(
        self,
        conductor: Calls,
        host: str,
        evacuates: bool,
        at_a_time: int,
        on_progress: Callable[[int, int, str], object],
        cold: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._conductor = conductor
        self._host = host
        self._evacuates = evacuates
        self._at_a_time = at_a_time
        self._on_progress = on_progress
        self._cold = cold
        self._clock = clock
        self._sleep = sleep
        #: The moves of this run, by instance; _OFFLOAD of one that was shelved.
        self._asked: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        #: By instance, why it cannot leave while it runs; "" if it can.
        self._obstacles: dict[str, str] = {}
        self._seen: set[str] = set()
        #: How many of those have left.
        self._gone = 0

    def obstacles(self) -> list[tuple[str, str]]:
        """Return the name of each instance that is to move, and why it cannot leave while it runs; "" if it can.

        Several may have one name.
        """
        movable = [each for each in self._look().movable if each["vm_state"] != states.SHELVED]
        self._learn([each["uuid"] for each in movable])
        return [(each["name"], self._obstacles.get(each["uuid"], "")) for each in movable]

    def movable(self) -> int:
        """Return the number of instances that are to move."""
        return len(self._look().movable)

    def run(self, timeout_s: float) -> Result:
        """Move the instances until all have left or cannot leave, the time is over, or the host falls silent or is back."""
        deadline = self._clock() + timeout_s
        while True:
            look = patience.patiently(self._look, self._clock, self._sleep, lambda: self._tell(patience.SILENCE))
            busy = {each["instance_uuid"] for each in (*look.moving, *look.finished)} | look.offloading.keys()
            self._seen |= {each["uuid"] for each in look.movable} | busy
            waiting = [each for each in look.movable if each["uuid"] not in self._asked]
            still = busy | {each["uuid"] for each in look.movable} | set(look.left) | set(self._refused)
            self._gone = gone = len(self._seen - still)
            doing = ", ".join(sorted(f"{_short(each)} {each['status']}" for each in look.moving)[: self._at_a_time])
            self._tell(doing)
            if not (busy or waiting):
                return Result(gone, {**look.left, **self._refused})
            stopped = self._why_stopped(look) if waiting else ""
            if stopped or self._clock() >= deadline:
                late = {each["instance_uuid"]: f"is on the move ({each['status']})" for each in look.moving}
                late |= look.offloading
                not_begun = {each["uuid"]: "is not begun" for each in waiting}
                return Result(gone, {**look.left, **self._refused, **late, **not_begun}, stopped)
            for move in look.finished:
                self._confirm(move)
            self._begin(waiting[: max(self._at_a_time - len(busy), 0)])
            self._sleep(_PAUSE_S)

    def _tell(self, doing: str) -> None:
        self._on_progress(self._gone, len(self._seen), doing)

    def _why_stopped(self, look: Look) -> str:
        """Return why nothing more may be begun in the way of this run, and what to do; "" if it goes on."""
        if look.is_down == self._evacuates:
            return ""
        if look.is_down:
            return (
                f"The agent of {self._host} has become silent, so nothing more was begun. When it is up again, run the same "
                f"command: it moves the others live. While it is down, the same command rebuilds them on other hosts "
                f"(evacuates them): run it then only if {self._host} is certainly off."
            )
        return (
            f"{self._host} is up again, so nothing more was evacuated. Run the same command: it moves the others live."
        )

    def _look(self) -> Look:
        # In this order: an instance that has left since the records were read still has its move among them.
        records = pages.migrations(self._conductor.operator, {"host": self._host})
        there = pages.brief_instances(self._conductor.operator, {"host": self._host})
        away = [each for each in records if each["source_compute"] == self._host]
        moving = [each for each in away if each["status"] in move_states.UNDER_WAY]
        finished = [each for each in away if each["status"] == move_states.FINISHED]
        look = Look(
            is_down(self._conductor, self._host), [], moving, [each for each in finished if not each["resized"]], {}, {}
        )
        for each in finished:
            if each["resized"]:
                look.left[each["instance_uuid"]] = "its resize waits to be confirmed or reverted"
        busy = {each["instance_uuid"] for each in (*moving, *finished)}
        ended = {each["uuid"]: each for each in records if each["status"] not in move_states.IN_PROGRESS}
        for instance in there:
            if instance["uuid"] in busy or instance["uuid"] in self._refused:
                continue
            if instance["task_state"] == states.SHELVING_OFFLOADING:
                look.offloading[instance["uuid"]] = f"is {states.SHELVING_OFFLOADING}"
                continue
            reason = self._why_not(instance, ended)
            if reason:
                look.left[instance["uuid"]] = reason
            else:
                look.movable.append(instance)
        return look

    def _why_not(self, instance: BriefInstance, ended: Mapping[str, MigrationView]) -> str:
        name = instance["name"]
        # A stopped instance cannot be started on a host that is down, so it may be evacuated as it is.
        stopped_there = instance["vm_state"] in states.AT_REST and self._evacuates
        if instance["vm_state"] == states.SHELVED and not stopped_there:
            return f"{name} stays: it was shelved again" if instance["uuid"] in self._asked else ""
        if instance["vm_state"] != states.ACTIVE and not stopped_there:
            return f"{name} is {instance['vm_state'].upper()}"
        if self._asked.get(instance["uuid"]) == _OFFLOAD:
            return f"{name} stays: it was unshelved"
        if self._asked.get(instance["uuid"]) == _UNSURE:
            return f"{name} stays, or its move has begun: {patience.SILENCE} when it was asked for"
        move = ended.get(self._asked.get(instance["uuid"], ""))
        if move is not None:
            failure = move.get("failure")
            return f"{name} stays: {(failure and failure.get('message')) or 'its move is ' + move['status']}"
        return ""

    def _begin(self, next_ones: Sequence[BriefInstance]) -> None:
        if not self._evacuates:
            self._learn([each["uuid"] for each in next_ones if each["vm_state"] != states.SHELVED])
        for each in next_ones:
            method = self._way(each)
            if method is None:
                obstacle = self._obstacles[each["uuid"]]
                self._refused[each["uuid"]] = f"{each['name']} {obstacle}: --cold moves it switched off"
            elif not self._ask(each["uuid"], method):
                break  # the others are asked for when a conductor answers

    def _way(self, instance: BriefInstance) -> str | None:
        """Return the call that moves an instance; None if it cannot leave while it runs, and must not leave cold."""
        if self._evacuates:
            return "evacuate_instance"
        if instance["vm_state"] == states.SHELVED:
            return _OFFLOAD
        if not self._obstacles.get(instance["uuid"]):
            return "live_migrate_instance"
        return "migrate_instance" if self._cold else None

    def _learn(self, uuids: Sequence[str]) -> None:
        unknown = [each for each in uuids if each not in self._obstacles]
        self._obstacles |= patience.patiently(
            lambda: ways.obstacles(self._conductor, unknown), self._clock, self._sleep
        )

    def _confirm(self, move: MigrationView) -> None:
        """Confirm a cold move. It is repeated as long as the move waits for it."""
        uuid = move["instance_uuid"]
        self._asked[uuid] = move["uuid"]
        try:
            self._conductor.operator.confirm_resize(name=uuid)
        except errors.FleetError as refusal:
            self._refused[uuid] = refusal.message
        except patience.AWAY:
            return

    def _ask(self, uuid: str, method: str) -> bool:
        """Return False if no conductor has answered."""
        try:
            record = self._conductor.operator.call(method, name=uuid)
        except errors.FleetError as refusal:
            self._refused[uuid] = refusal.message
            return True
        except patience.AWAY:
            self._asked[uuid] = _UNSURE
            return False
        self._asked[uuid] = _OFFLOAD if method == _OFFLOAD else record["uuid"]
        return True


def _short(migration: Record) -> str:
    return str(migration["instance_uuid"])[:8]
