# SPDX-License-Identifier: Apache-2.0
"""Named points at which fault tests make a daemon die, hang, fail or slow down. Off unless a daemon is armed.

Code passes a point with ``hit(NAME)``. A transaction has two points (written but not committed; committed but not yet
reported), declared with ``@commits(NAME)`` on its function, with ``@commits_inherited`` on its class if another class
has the function, or for several works in one transaction with ``@commits_all``. While nothing is armed, a point costs
one comparison. ``fleet.conf.load_config`` calls ``arm`` once. The actions are in a file that is read again whenever it
changes, so a test arms and disarms running daemons.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
import pathlib
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from oslo_config import cfg
from oslo_log import log as logging
from oslo_serialization import jsonutils

from fleet import errors
from fleet.failpoints.names import AFTER_COMMIT, BEFORE_COMMIT, NAMES
from fleet.objects import fields

LOG = logging.getLogger(__name__)
Work = TypeVar("Work", bound=Callable[..., Any])
Owner = TypeVar("Owner")

OPTS = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="Let fault tests make this daemon die, hang or fail at named points of a build. Never set it in production, "
        "because it gives control over the daemon to everybody who can write the file.",
    ),
    cfg.StrOpt(
        "file",
        help="JSON file with the actions of the failpoints. It is read again when it changes, and may be created later. A "
        "daemon does not start if file is set and enabled is not.",
    ),
]


class Action(enum.StrEnum):
    """The kinds of failures."""

    #: The process is killed, as by kill -9.
    EXIT = "exit"
    #: The whole process is stopped, and continues after ``seconds``.
    PAUSE = "pause"
    #: Only this thread waits for ``seconds``.
    DELAY = "delay"
    #: An unexpected exception is raised.
    RAISE = "raise"
    #: The database asks for the transaction to be repeated.
    DEADLOCK = "deadlock"
    #: The connection to the database is lost. After a commit the outcome is then unknown.
    DISCONNECT = "disconnect"


class DatabaseFault(Exception):
    """Raised by the actions ``deadlock`` and ``disconnect``. ``fleet.db`` treats it as the error of that kind."""

    def __init__(self, action: Action) -> None:
        super().__init__(f"{action}, as a failpoint was told to")
        self.action = action


class FailpointReached(Exception):
    """Raised by the action ``raise``. Deliberately not one of ``fleet.errors``."""


@dataclasses.dataclass(frozen=True)
class Failpoint:
    """``times`` is the most hits over all processes that share the file; ``skip`` is the number of passes before the
    first hit.

    ``chance`` is drawn at each pass from a generator that ``seed`` starts in each process.
    """

    action: Action
    seconds: float = 1.0
    times: fields.Positive | None = None
    skip: fields.Natural = 0
    chance: float = 1.0
    seed: int = 0


def hit(name: str) -> None:
    """Pass the point ``name``, one of ``failpoint_names.NAMES``."""
    if _armed is not None:
        _armed.hit(name)


def commits(step: str) -> Callable[[Work], Work]:
    """Mark a transaction's function: the engine passes ``STEP.before_commit`` and ``STEP.after_commit``."""

    def mark(work: Work) -> Work:
        work.failpoints = (step,)  # type: ignore[attr-defined]
        return work

    return mark


def commits_all(marked: Iterable[object]) -> Callable[[Work], Work]:
    """Mark the function of a transaction that does several marked works: it passes the points of each of them."""

    def mark(work: Work) -> Work:
        work.failpoints = tuple(step for each in marked for step in _steps(each))  # type: ignore[attr-defined]
        return work

    return mark


def commits_inherited(**steps: str) -> Callable[[type[Owner]], type[Owner]]:
    """Mark methods that a class inherits, by their names: each class names its own transactions."""

    def mark(owner: type[Owner]) -> type[Owner]:
        for name, step in steps.items():
            assert name not in vars(owner), f"{owner.__name__} has its own {name}: mark that with commits"
            setattr(owner, name, commits(step)(_copy(getattr(owner, name))))
        return owner

    return mark


def _copy(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def own(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return own


def _steps(work: object) -> tuple[str, ...]:
    return getattr(work, "failpoints", ())


def before_commit(work: Callable[..., Any]) -> None:
    _hit_commit(work, BEFORE_COMMIT)


def after_commit(work: Callable[..., Any]) -> None:
    _hit_commit(work, AFTER_COMMIT)


def _hit_commit(work: Callable[..., Any], when: str) -> None:
    if _armed is not None:
        for step in _steps(work):
            _armed.hit(f"{step}.{when}")


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=_group())


def list_opts() -> list[tuple[object, list[cfg.Opt]]]:
    """Return the options by group, for oslo-config-generator."""
    return [(_group(), OPTS)]


def _group() -> cfg.OptGroup:
    return cfg.OptGroup("failpoints", title="Deliberate faults, for tests only")


def arm(conf: cfg.ConfigOpts) -> None:
    """Arm or disarm this process, as ``conf`` says. :raises errors.ConfigError: only one of the two options is set"""
    global _armed
    options = conf.failpoints
    if options.file and not options.enabled:
        reason = "is set, but [failpoints] enabled is not: a daemon with failpoints must never serve in production"
        raise errors.ConfigError(option="[failpoints] file", reason=reason)
    if options.enabled and not options.file:
        raise errors.ConfigError(option="[failpoints] file", reason="must be set if [failpoints] enabled is")
    _armed = _Armed(pathlib.Path(options.file)) if options.enabled else None
    if _armed is not None:
        LOG.warning("Failpoints are enabled and read from %s: this daemon is for tests only", options.file)


class _Armed:
    """The content of the file. The lock guards it and the random generators."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._version: tuple[int, int, int] | None = None
        self._points: dict[str, Failpoint] = {}
        self._dice: dict[str, random.Random] = {}
        self._passed: dict[str, int] = {}

    def hit(self, name: str) -> None:
        with self._lock:
            point = self._due(name)
        if point is not None:
            LOG.warning("Failpoint %s: %s", name, point.action)
            _ACTIONS[point.action](point)

    def _due(self, name: str) -> Failpoint | None:
        self._read()
        point = self._points.get(name)
        if point is None:
            return None
        self._passed[name] = self._passed.get(name, 0) + 1
        if self._passed[name] <= point.skip or self._dice[name].random() >= point.chance:
            return None
        return point if self._take_turn(name, point) else None

    def _take_turn(self, name: str, point: Failpoint) -> bool:
        """Take the first free mark: a process that died at a point must not die there again after its restart. Tests
        read the marks, too.
        """
        for turn in range(point.times if point.times is not None else 1):
            try:
                os.close(os.open(f"{self._path}.{name}.{turn}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            except FileExistsError:
                continue
            return True
        return point.times is None

    def _read(self) -> None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self._version, self._points = None, {}
            return
        version = (found.st_ino, found.st_mtime_ns, found.st_size)
        if version == self._version:
            return
        self._version = version
        try:
            self._points = parse(self._path.read_text())
        except errors.InvalidInput as wrong:
            LOG.error("Failpoints are off: %s", wrong.message)
            self._points = {}
        self._dice = {name: random.Random(f"{point.seed}/{name}") for name, point in self._points.items()}
        self._passed = {}


def parse(text: str) -> dict[str, Failpoint]:
    """``{NAME: {"action": …}}``. :raises errors.InvalidInput: naming the point"""
    try:
        data = jsonutils.loads(text)
    except ValueError as wrong:
        raise errors.InvalidInput(field="failpoints", reason=f"is not JSON: {wrong}") from None
    points = fields.parse(dict[str, Failpoint], data, "failpoints")
    for name in points:
        if name not in NAMES:
            raise errors.InvalidInput(field=f"failpoints.{name}", reason="is not a point of failure")
    return points


def _exit(point: Failpoint) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _pause(point: Failpoint) -> None:
    """Stop the process. Another process continues it, because a stopped one cannot look at a clock."""
    subprocess.Popen(["sh", "-c", f"sleep {point.seconds:f}; kill -CONT {os.getpid()}"], start_new_session=True)
    os.kill(os.getpid(), signal.SIGSTOP)


def _delay(point: Failpoint) -> None:
    time.sleep(point.seconds)


def _raise(point: Failpoint) -> None:
    raise FailpointReached("as a failpoint was told to")


def _fail_transaction(point: Failpoint) -> None:
    raise DatabaseFault(point.action)


_ACTIONS: dict[Action, Callable[[Failpoint], None]] = {
    Action.EXIT: _exit,
    Action.PAUSE: _pause,
    Action.DELAY: _delay,
    Action.RAISE: _raise,
    Action.DEADLOCK: _fail_transaction,
    Action.DISCONNECT: _fail_transaction,
}
_armed: _Armed | None = None
