# SPDX-License-Identifier: Apache-2.0
"""Follows builds to their end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from fleet import states
from fleet.cli import connection
from fleet.cli.command import Record

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


def delete(
    conductor: connection.Connection,
    uuids: Iterable[str],
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Terminate ``uuids`` and wait until they are gone; returns those still there after ``timeout_s``."""
    pending = list(uuids)
    for start in range(0, len(pending), _BATCH):
        conductor.terminate(pending[start : start + _BATCH])
    deadline, pause = clock() + timeout_s, _SHORTEST_S
    while pending:
        found = look(conductor, pending)
        pending = [uuid for uuid in pending if found[uuid]["vm_state"] != states.DELETED]
        if not pending or clock() >= deadline:
            break
        sleep(pause)
        pause = min(pause * 1.5, _LONGEST_S)
    return pending


def follow(
    conductor: connection.Connection,
    uuids: Iterable[str],
    timeout_s: float,
    on_end: Callable[[Record], object],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Call ``on_end`` for every build that ends within ``timeout_s``; returns those that have not."""
    pending = list(uuids)
    deadline, pause = clock() + timeout_s, _SHORTEST_S
    while pending:
        for instance in look(conductor, pending).values():
            if ended(instance):
                on_end(instance)
                pending.remove(instance["uuid"])
        if not pending or clock() >= deadline:
            break
        sleep(min(pause, max(deadline - clock(), 0)))
        pause = min(pause * 1.5, _LONGEST_S)
    return pending
