# SPDX-License-Identifier: Apache-2.0
"""Follows builds to their end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from fleet import move_states, states
from fleet.client import connection
from fleet.client.connection import Record

#: As many as one call asks about: its answer stays well under the size that a message should have.
_BATCH = 500
_SHORTEST_S, _LONGEST_S = 0.1, 1.0


def ended(instance: Record) -> bool:
    """Whether the build has come to its end, good or bad."""
    return instance["vm_state"] != states.BUILDING


def gone(uuid: str) -> dict[str, Any]:
    """What is known of an instance that is no longer listed: somebody deleted it."""
    return {"uuid": uuid, "vm_state": states.DELETED}


def look(conductor: connection.Connection, uuids: Iterable[str]) -> dict[str, Record]:
    """The present state of ``uuids``."""
    wanted = list(uuids)
    found: dict[str, Record] = {}
    for start in range(0, len(wanted), _BATCH):
        part = wanted[start : start + _BATCH]
        listed = {each["uuid"]: each for each in conductor.operator("list_instances", filters={"uuids": part})}
        found.update({uuid: listed.get(uuid) or gone(uuid) for uuid in part})
    return found


def ask_to_delete(conductor: connection.Connection, uuids: list[str]) -> None:
    for start in range(0, len(uuids), _BATCH):
        conductor.terminate(uuids[start : start + _BATCH])


def delete(
    conductor: connection.Connection,
    uuids: Iterable[str],
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Terminate ``uuids`` and wait until they are gone; returns those still there after ``timeout_s``."""
    pending = list(uuids)
    ask_to_delete(conductor, pending)
    deadline, pause = clock() + timeout_s, _SHORTEST_S
    while pending:
        found = look(conductor, pending)
        pending = [uuid for uuid in pending if found[uuid]["vm_state"] != states.DELETED]
        if not pending or clock() >= deadline:
            break
        sleep(pause)
        pause = min(pause * 1.5, _LONGEST_S)
    return pending


def drain(
    conductor: connection.Connection,
    host: str,
    timeout_s: float,
    on_change: Callable[[list[Record], int], object],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    moving: bool = False,
) -> list[Record]:
    """Wait until nothing is under way on a host that has just been disabled; returns what still is after ``timeout_s``.

    A build that was being placed then may still arrive: where it goes is not known before it is claimed.

    :param on_change: told what is under way on the host, and how many may arrive
    :param moving: moves are waited for by the caller, which has begun them: only builds and deletions are waited for here
    """
    tasks = (*states.BUILD_STEPS, states.DELETING)
    building = conductor.operator("list_instances", filters={"vm_state": states.BUILDING})
    coming = {each["uuid"]: each["attempt"] for each in building if each["task_state"] == states.PLACING}
    deadline, pause, before = clock() + timeout_s, _SHORTEST_S, None
    while True:
        found = look(conductor, coming)
        coming = {uuid: attempt for uuid, attempt in coming.items() if _is_placed(found[uuid], attempt)}
        there = conductor.operator("list_instances", filters={"host": host})
        under_way = [each for each in there if not ended(each) or each["task_state"]]
        if moving:
            under_way = [each for each in under_way if each["task_state"] in tasks]
        if (now := (len(under_way), len(coming))) != before:
            on_change(under_way, len(coming))
            before = now
        if not (under_way or coming) or clock() >= deadline:
            return under_way + [found[uuid] for uuid in coming]
        sleep(min(pause, max(deadline - clock(), 0)))
        pause = min(pause * 1.5, _LONGEST_S)


def moves(
    conductor: connection.Connection,
    uuids: Iterable[str],
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[list[Record], list[Record]]:
    """Wait until these moves are under way no more; returns those that are not, and those that are after ``timeout_s``."""
    wanted = list(uuids)
    deadline, pause = clock() + timeout_s, _SHORTEST_S
    while True:
        found = conductor.operator("list_migrations", filters={"uuids": wanted})
        late = [each for each in found if each["status"] in move_states.UNDER_WAY]
        if not late or clock() >= deadline:
            return [each for each in found if each not in late], late
        sleep(min(pause, max(deadline - clock(), 0)))
        pause = min(pause * 1.5, _LONGEST_S)


def _is_placed(instance: Record, attempt: int) -> bool:
    """Whether it is still being placed, by the same attempt."""
    return instance.get("task_state") == states.PLACING and instance["attempt"] == attempt


def follow(
    conductor: connection.Connection,
    uuids: Iterable[str],
    timeout_s: float,
    on_end: Callable[[Record], object],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    on_look: Callable[[list[Record]], object] = lambda under_way: None,
) -> list[str]:
    """Call ``on_end`` for every build that ends within ``timeout_s``; returns those that have not.

    :param on_look: called with the builds that are still under way, as often as they are looked at
    """
    pending = list(uuids)
    deadline, pause = clock() + timeout_s, _SHORTEST_S
    while pending:
        found = look(conductor, pending)
        for instance in found.values():
            if ended(instance):
                on_end(instance)
                pending.remove(instance["uuid"])
        on_look([found[uuid] for uuid in pending])
        if not pending or clock() >= deadline:
            break
        sleep(min(pause, max(deadline - clock(), 0)))
        pause = min(pause * 1.5, _LONGEST_S)
    return pending
