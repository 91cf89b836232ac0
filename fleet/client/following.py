# SPDX-License-Identifier: Apache-2.0
"""Waits until builds, moves, power tasks, volumes and deletions end. Commands with ``--wait`` call it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from fleet import move_states, states, volume_states
from fleet.client import pages, patience
from fleet.client.calls import Calls
from fleet.client.connection import Record
from fleet.json_codec import JSONObject
from fleet.objects.answers.instances import BriefInstance, MigrationView

#: Instances in one call, with brief records: the answer stays much smaller than a message may be.
_BATCH = 500
#: Volumes in one call. Users choose how much is stored with each: the largest volumes are then less than an answer may have.
_VOLUMES = 100
_SHORTEST_S, _LONGEST_S = 0.1, 1.0
Seen = TypeVar("Seen")


def _looks(
    look: Callable[[], Seen],
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Seen]:
    """Yield what each look returns, with longer and longer pauses between them, until the time is over.

    A look without an answer is repeated as long as there is time, for two minutes at most.
    """
    deadline, pause = clock() + timeout_s, _SHORTEST_S
    while True:
        yield patience.patiently(look, clock, sleep, patient_s=min(patience.PATIENT_S, deadline - clock()))
        if clock() >= deadline:
            return
        sleep(min(pause, max(deadline - clock(), 0)))
        pause = min(pause * 1.5, _LONGEST_S)


def ended(instance: Record) -> bool:
    """Return True if the build has ended, well or not."""
    answer: bool = instance["vm_state"] != states.BUILDING
    return answer


def gone(uuid: str) -> JSONObject:
    """Return the record of an instance that is no longer listed: it was deleted."""
    return {"uuid": uuid, "vm_state": states.DELETED}


def look(conductor: Calls, uuids: Iterable[str]) -> dict[str, Record]:
    """Return the present state of ``uuids``, as brief records."""
    found: dict[str, Record] = {}
    for part in _parts(uuids):
        listed = {each["uuid"]: each for each in conductor.operator.list_brief(filters={"uuids": part})}
        found.update({uuid: listed.get(uuid) or gone(uuid) for uuid in part})
    return found


def _parts(uuids: Iterable[str], at_once: int = _BATCH) -> Iterator[list[str]]:
    """Yield the uuids in lists that are short enough for a call."""
    wanted = list(uuids)
    for start in range(0, len(wanted), at_once):
        yield wanted[start : start + at_once]


def ask_to_delete(conductor: Calls, uuids: list[str]) -> None:
    for part in _parts(uuids):
        conductor.terminate(part)


def delete(conductor: Calls, uuids: Iterable[str], timeout_s: float) -> list[str]:
    """Terminate ``uuids`` and wait; return those that still exist after ``timeout_s``."""
    wanted = list(uuids)
    ask_to_delete(conductor, wanted)
    return _left(conductor, wanted, lambda each: each["vm_state"] != states.DELETED, timeout_s)


def power(conductor: Calls, uuids: Iterable[str], timeout_s: float) -> list[str]:
    """Wait until these instances have no power task any more, and are not built again; return those that are not done
    after ``timeout_s``.
    """

    def goes_on(each: Record) -> bool:
        return each.get("task_state") in states.POWER_TASKS or each.get("vm_state") == states.BUILDING

    return _left(conductor, uuids, goes_on, timeout_s)


def _left(conductor: Calls, uuids: Iterable[str], is_left: Callable[[Record], bool], timeout_s: float) -> list[str]:
    """Wait until ``is_left`` is False for each instance, or ``timeout_s`` is over; return those that are left."""
    pending = list(uuids)
    for found in _looks(lambda: look(conductor, pending), timeout_s):
        pending[:] = [uuid for uuid in pending if is_left(found[uuid])]
        if not pending:
            break
    return pending


def drain(
    conductor: Calls,
    host: str,
    timeout_s: float,
    on_change: Callable[[Sequence[Record], int], object],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    moving: bool = False,
) -> list[Record]:
    """Wait until no build, deletion or move is on its way on a host that was just disabled, or to it; return those left
    after ``timeout_s``.

    A build or a move that was being placed may still arrive: its host is unknown until the claim.

    :param on_change: called with what is on its way on the host, and how many builds may arrive
    :param moving: the caller waits for moves away itself: wait for builds, deletions, and what comes
    """
    tasks = (*states.BUILD_STEPS, states.DELETING)
    building = pages.brief_instances(conductor.operator, {"vm_state": states.BUILDING})
    coming = {each["uuid"]: each["attempt"] for each in building if each["task_state"] == states.PLACING}
    placed = _unplaced_moves(conductor, host)
    before = None

    def read() -> tuple[dict[str, MigrationView], list[MigrationView], dict[str, Record], list[BriefInstance]]:
        still = _unplaced_moves(conductor, host, placed)
        # In this order: a move that has a destination since is among the moves to it.
        to = _moves_to(conductor, host)
        moved = [each["instance_uuid"] for each in (*to, *still.values())]
        found = look(conductor, [*coming, *moved])
        return still, to, found, pages.brief_instances(conductor.operator, {"host": host})

    for placed, arriving, found, there in _looks(read, timeout_s, clock, sleep):
        coming = {uuid: attempt for uuid, attempt in coming.items() if _is_placed(found[uuid], attempt)}
        under_way: list[Record] = [each for each in there if not ended(each) or each["task_state"]]
        if moving:
            under_way = [each for each in under_way if each["task_state"] in tasks]
        known = {each["uuid"] for each in under_way}
        under_way += [found[uuid] for each in arriving if (uuid := each["instance_uuid"]) not in known]
        if (now := (len(under_way), len(coming) + len(placed))) != before:
            on_change(under_way, now[1])
            before = now
        if not (under_way or coming or placed):
            break
    return [*under_way, *(found[uuid] for uuid in (*coming, *(each["instance_uuid"] for each in placed.values())))]


def _moves_to(conductor: Calls, host: str) -> list[MigrationView]:
    """Return the moves to a host that are under way, each of another instance."""
    found = pages.migrations(conductor.operator, {"host": host})
    return [each for each in found if each["dest_compute"] == host and each["status"] in move_states.UNDER_WAY]


def _unplaced_moves(
    conductor: Calls, host: str, known: Mapping[str, MigrationView] | None = None
) -> dict[str, MigrationView]:
    """Return, by uuid, moves away from other hosts for which a scheduler chooses a destination now.

    :param known: only those of them of which the same attempt is still being placed; None: all there are
    """
    if known is None:
        listed = pages.migrations(conductor.operator, {"status": move_states.PREPARING})
        found = [each for each in listed if each["source_compute"] != host]
    else:
        every = [each for part in _parts(known) for each in conductor.operator.list_migrations(filters={"uuids": part})]
        found = [each for each in every if each["attempt"] == known[each["uuid"]]["attempt"]]
    placing = [each for each in found if each["status"] == move_states.PREPARING and each["dest_compute"] is None]
    return {each["uuid"]: each for each in placing}


def moves(conductor: Calls, uuids: Iterable[str], timeout_s: float) -> tuple[list[MigrationView], list[MigrationView]]:
    """Wait until these moves have ended; return ended ones, and those left after ``timeout_s``."""
    wanted = list(uuids)
    for found in _looks(lambda: conductor.operator.list_migrations(filters={"uuids": wanted}), timeout_s):
        late = [each for each in found if each["status"] in move_states.UNDER_WAY]
        if not late:
            break
    return [each for each in found if each not in late], late


def volumes(
    conductor: Calls,
    uuids: Iterable[str],
    timeout_s: float,
    is_over: Callable[[Record], bool],
    method: str = "list_volumes",
    on_look: Callable[[list[Record]], object] = lambda found: None,
) -> list[Record]:
    """Wait until ``is_over`` for each of these volumes, or ``timeout_s`` is over; return them as they are then.

    A volume that is no longer listed has the status ``deleted`` and nothing else.

    :param method: lists them: volumes or snapshots
    :param on_look: called with them after each look
    """
    wanted = list(uuids)

    def listed() -> list[Record]:
        parts = _parts(wanted, _VOLUMES)
        found = [each for part in parts for each in conductor.operator.call(method, filters={"uuids": part})]
        known = {each["uuid"]: each for each in found}
        return [known.get(uuid) or {"uuid": uuid, "status": volume_states.DELETED} for uuid in wanted]

    for found in _looks(listed, timeout_s):
        on_look(found)
        if all(map(is_over, found)):
            break
    return found


def _is_placed(instance: Record, attempt: int) -> bool:
    """Return True if the same attempt is still being placed."""
    return instance.get("task_state") == states.PLACING and instance["attempt"] == attempt


def follow(
    conductor: Calls,
    uuids: Iterable[str],
    timeout_s: float,
    on_end: Callable[[Record], object],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    on_look: Callable[[list[Record]], object] = lambda under_way: None,
) -> list[str]:
    """Call ``on_end`` for every build that ends within ``timeout_s``; return the others.

    :param on_look: called with the builds on their way, after each look
    """
    pending = list(uuids)
    for found in _looks(lambda: look(conductor, pending), timeout_s, clock, sleep) if pending else ():
        for instance in found.values():
            if ended(instance):
                on_end(instance)
                pending.remove(instance["uuid"])
        on_look([found[uuid] for uuid in pending])
        if not pending:
            break
    return pending
