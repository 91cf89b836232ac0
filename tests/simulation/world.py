# SPDX-License-Identifier: Apache-2.0
"""Time and chance: coroutines that run one at a time, in an order that the seed decides."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import random
from collections.abc import Callable
from typing import Any

import greenlet

START = datetime.datetime(2026, 1, 1)


class Killed(BaseException):
    """Thrown into a coroutine whose process has died; nothing may catch it."""


@dataclasses.dataclass(eq=False)
class Process:
    """One life of a daemon. ``endpoints`` are what it serves, ``of_queue`` where a queue has its own; what it started
    dies with it."""

    name: str
    alive: bool = True
    endpoints: list[Any] = dataclasses.field(default_factory=list)
    of_queue: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    topics: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(eq=False)
class Task:
    """A coroutine of a process; it goes on when ``ready`` (None: never) says so, or when its time has come."""

    process: Process
    name: str
    body: greenlet.greenlet
    ready: Callable[[], bool] | None
    wakes_at: datetime.datetime | None = None
    endless: bool = False


class SimulatedWorld:
    """``step`` does one thing; everything random comes from ``chance``."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = START
        self.calm = False
        self.history: list[str] = []
        self.met: collections.Counter[str] = collections.Counter()
        self._tasks: list[Task] = []
        self._timers: list[tuple[datetime.datetime, Callable[[], None]]] = []
        self._current: Task | None = None
        self._loop = greenlet.getcurrent()

    # For code that runs in the world

    def clock(self) -> datetime.datetime:
        return self.now

    def seconds(self) -> float:
        """A monotonic clock."""
        return (self.now - START).total_seconds()

    def log(self, text: str, *values: object) -> None:
        self.history.append(f"{self.seconds():9.2f} {text % values if values else text}")

    def happens(self, trouble: str, probability: float) -> bool:
        """Whether it does, and then it is counted. Never once the world is calm."""
        if self.calm or self.chance.random() >= probability:
            return False
        self.met[trouble] += 1
        return True

    def pause(self) -> None:
        """Let others go first, perhaps."""
        self.wait(_at_once)

    def sleep(self, seconds: float) -> None:
        self.wait(None, seconds)

    def wait(self, ready: Callable[[], bool] | None, timeout_s: float | None = None) -> bool:
        """Until ``ready``, or the time is over; whether it was ready."""
        task = self._current
        if task is None:
            return bool(ready and ready())
        task.ready = ready
        task.wakes_at = None if timeout_s is None else self.now + datetime.timedelta(seconds=timeout_s)
        task.body.parent.switch()
        if not task.process.alive:
            raise Killed
        return bool(ready and ready())

    # For the machinery

    def spawn(self, process: Process, name: str, work: Callable[[], object], endless: bool = False) -> None:
        def body() -> None:
            try:
                if process.alive:
                    work()
            except Killed:
                pass

        self._tasks.append(Task(process, name, greenlet.greenlet(body, self._loop), _at_once, endless=endless))

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        self._timers.append((self.now + datetime.timedelta(seconds=seconds), act))

    def kill(self, process: Process) -> None:
        """What it was doing is never gone on with: no handler of its runs."""
        process.alive = False
        self.log("%s dies", process.name)
        self._tasks = [task for task in self._tasks if task.process is not process]

    def works(self) -> bool:
        """Whether a message is under way, or anything is being done that will end by itself."""
        return bool(self._timers) or any(not task.endless for task in self._tasks)

    def step(self) -> bool:
        """Run one coroutine or timer, or move the clock to the next; False when nothing is left to do."""
        now = self.now
        ready = [
            task
            for task in self._tasks
            if (task.wakes_at is not None and task.wakes_at <= now) or (task.ready is not None and task.ready())
        ]
        due = [timer for timer in self._timers if timer[0] <= now]
        if not ready and not due:
            return self._advance()
        number = self.chance.randrange(len(ready) + len(due))
        if number < len(ready):
            self._resume(ready[number])
        else:
            timer = due[number - len(ready)]
            self._timers.remove(timer)
            timer[1]()
        return True

    def _resume(self, task: Task) -> None:
        self._current = task
        try:
            task.body.switch()
        finally:
            self._current = None
        if task.body.dead and task in self._tasks:
            self._tasks.remove(task)

    def _advance(self) -> bool:
        times = [task.wakes_at for task in self._tasks if task.wakes_at] + [when for when, _act in self._timers]
        if not times:
            return False
        self.now = max(self.now, min(times))
        return True


def _at_once() -> bool:
    return True
