# SPDX-License-Identifier: Apache-2.0
"""Clients that build, move, delete and make volumes without a pause, and remember what they were promised."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import sqlalchemy as sa

from fleet import errors
from tests.chaos.disks import Disks
from tests.chaos.scenarios.moves import LARGER
from tests.chaos.world import NO_ANSWER, ChaosWorld

#: Clients wait so long between two requests: the machine must keep up with them.
_PAUSE_S = 1.0
#: With more instances than this, the load deletes the oldest.
_MOST = 40
_MOVES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("live_migrate_instance", {}),
    ("resize_instance", {"flavor": LARGER}),
    ("confirm_resize", {}),
)


class ClientLoad:
    """Runs from ``running`` on in threads. ``promised`` and ``promised_volumes`` have every uuid that was answered."""

    def __init__(self, world: ChaosWorld, disks: Disks, chance: random.Random) -> None:
        self._world = world
        self._disks = disks
        self._chance = chance
        self._ending = threading.Event()
        self.promised: list[str] = []
        self.promised_volumes: list[str] = []
        #: When the accepted requests were sent and answered.
        self._accepted: list[tuple[float, float]] = []

    @contextlib.contextmanager
    def running(self) -> Iterator[ClientLoad]:
        with futures.ThreadPoolExecutor(4) as threads:
            for act in (self._build, self._build, self._move, self._use_volumes):
                threads.submit(self._often, act)
            try:
                self.stopped_s(time.monotonic())
                yield self
            finally:
                self._ending.set()

    def stopped_s(self, since: float, timeout_s: float = 90) -> float:
        """Seconds from ``since`` to the answer of the first accepted request that was sent later. Waits for it."""

        def answered_at() -> float | None:
            return min((answer for sent, answer in list(self._accepted) if sent > since), default=None)

        found: float = self._world.until(answered_at, timeout_s=timeout_s)
        return found - since

    def lost(self) -> list[str]:
        """Promised instances and volumes without a row."""
        found: set[str] = set()
        for table in ("instances", "volumes"):
            with self._world.transaction() as connection:
                found.update(connection.scalars(sa.text(f"SELECT uuid FROM {table} ORDER BY uuid")))
        return [uuid for uuid in self.promised + self.promised_volumes if uuid not in found]

    def _often(self, act: Callable[[], None]) -> None:
        while not self._ending.wait(_PAUSE_S):
            # A checker's own connection ends with the server that it was on.
            with contextlib.suppress(*NO_ANSWER, errors.FleetError, sa.exc.SQLAlchemyError):
                act()

    def _build(self) -> None:
        sent = time.monotonic()
        accepted = self._world.boot(2)
        if accepted:
            self._accepted.append((sent, time.monotonic()))
            self.promised += accepted

    def _move(self) -> None:
        rows = [row for row in self._world.builds() if row["task_state"] is None]
        if len(rows) > _MOST:
            self._world.terminate([row["uuid"] for row in rows[: len(rows) - _MOST]])
        for method, arguments in _MOVES:
            state = "resized" if method == "confirm_resize" else "active"
            fit = [row["uuid"] for row in rows if row["vm_state"] == state]
            if fit:
                self._disks.order(method, name=self._chance.choice(fit), **arguments)

    def _use_volumes(self) -> None:
        request = {"name": self._world.name, "size": 1, "count": 1}
        made = self._disks.order("create_volumes", request=request)
        self.promised_volumes += [each["uuid"] for each in made["volumes"]] if made else []
        kept = self._disks.with_status("available")
        for row in kept[:2] if len(kept) > 6 else ():
            self._disks.order("delete_volume", name=row["uuid"])
