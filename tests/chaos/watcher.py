# SPDX-License-Identifier: Apache-2.0
"""Judges the world every second while a scenario hurts it."""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Iterable

import sqlalchemy as sa

from tests.chaos.world import ChaosWorld
from tests.invariants import drivers, moment

#: I15 is judged by the scenarios of volumes themselves.
NUMBERS = [f"I{number}" for number in (*range(1, 15), 16, 17)]
#: What is kept of one scenario: enough to see what happened.
MOST_LINES = 40


@dataclasses.dataclass
class Verdict:
    """How often each invariant was found held and violated, and the sentences about the latter."""

    held: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    violated: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    lines: list[str] = dataclasses.field(default_factory=list)

    def judge(self, number: str, wrong: Iterable[str]) -> None:
        found = list(wrong)
        (self.violated if found else self.held)[number] += 1
        for line in found:
            self.note(f"{number}: {line}")

    def note(self, line: str) -> None:
        if line not in self.lines and len(self.lines) < MOST_LINES:
            self.lines.append(line)


class Watcher:
    """What holds at every instant, looked at each ``interval_s`` in a thread; blind while the database is away."""

    def __init__(self, world: ChaosWorld, verdict: Verdict, interval_s: float = 1.0) -> None:
        self._world = world
        self._verdict = verdict
        self._interval_s = interval_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self.blind = 0

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_ended: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopping.wait(self._interval_s):
            try:
                self.look()
            except sa.exc.SQLAlchemyError:
                self.blind += 1

    def look(self) -> None:
        ledger = self._world.ledger()
        instances_path = self._world.trio.instances_path
        wrong: dict[str, list[str]] = collections.defaultdict(list)
        for number, check in moment.CHECKS:
            wrong[number] += check(ledger)
        wrong["I1"] += drivers.guests_fit(ledger, instances_path)
        wrong["I6"] += drivers.no_spawn_is_repeated(instances_path)
        for number, lines in wrong.items():
            self._verdict.judge(number, lines)
