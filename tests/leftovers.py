# SPDX-License-Identifier: Apache-2.0
"""Fails a test that leaves a thread, a process or changed logging behind: the next test would meet it.

A test gets ``PATIENCE_S`` for what it has started to end by itself. Session fixtures start before the first look, so
their servers and threads do not count. A fixture that starts more while tests run joins ``KEEPERS``.
"""

from __future__ import annotations

import gc
import logging
import pathlib
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Protocol

import pytest

#: Generous: a busy machine is slow to end what was told to end.
PATIENCE_S = 30.0
_FIRST_PAUSE_S = 0.001
#: Most threads and processes end by themselves, and a garbage collection takes up to a third of a second of processor time.
#: The pauses between two of them double.
_COLLECT_AFTER_S = 0.05
#: One a process, started at the first use and kept: the progress bar's redrawing, the clients' watch over long calls.
#: One an engine, until it is disposed: the watch over its sessions.
_PROCESS_WIDE = frozenset({"tqdm_monitor", "call-monitor", "database-sessions"})


class Keeper(Protocol):
    """A fixture that starts threads or processes while tests run, and ends them itself."""

    def keeps_thread(self, thread: threading.Thread) -> bool: ...

    def keeps_process(self, pid: int) -> bool: ...


KEEPERS: list[Keeper] = []
#: Children of ours whose own children count as ours.
PARENTS: list[int] = []
#: Threads that ran when the present test began. A test that has failed may have left some that never end.
_BEFORE: set[threading.Thread] = set()


def begun(name: str) -> list[threading.Thread]:
    """Return the threads of this name that the present test has begun, and that have not ended."""
    return [each for each in threading.enumerate() if each.name == name and each not in _BEFORE]


def join(name: str) -> None:
    """Wait until every thread of this name that the present test has begun has ended."""
    for thread in begun(name):
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), f"thread {name} does not end"


@pytest.fixture
def logging_stays_as_it_was() -> Iterator[None]:
    """Compare level and handlers of the root logger before and after a test, and put them back."""
    before = _logging()
    yield
    if _logging() != before:
        _restore_logging(before)
        pytest.fail("The test leaves the root logger with another level or other handlers", pytrace=False)


@pytest.fixture(autouse=True)
def nothing_is_left_behind(logging_stays_as_it_was: None, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Compare threads and child processes before and after each test.

    ``caplog`` ends after this and before ``logging_stays_as_it_was``: it puts back the levels that a test sets with it.
    """
    threads, processes = set(threading.enumerate()), _children()
    _BEFORE.clear()
    _BEFORE.update(threads)
    yield
    left = _wait_for_none(threads, processes, caplog)
    if left:
        pytest.fail("\n".join(["The test leaves behind:", *left]), pytrace=False)


def _wait_for_none(threads: set[threading.Thread], processes: set[int], caplog: pytest.LogCaptureFixture) -> list[str]:
    """Descriptions of the threads and processes that have not ended in time."""
    began, pause = time.monotonic(), _FIRST_PAUSE_S
    collect_at = began + _COLLECT_AFTER_S
    while True:
        new_threads = [each for each in threading.enumerate() if each not in threads and not _is_kept(each)]
        new_processes = {pid for pid in _children() - processes if not any(each.keeps_process(pid) for each in KEEPERS)}
        if not new_threads and not new_processes:
            return []
        now = time.monotonic()
        if now >= collect_at:
            # Some threads end with the object that owns them, and a logged traceback refers to such objects.
            for record in (*caplog.get_records("setup"), *caplog.get_records("call")):
                record.exc_info = None
            gc.collect()
            collect_at = now + (now - began)
        if now > began + PATIENCE_S:
            return [*map(_thread, new_threads), *map(_process, new_processes)]
        time.sleep(pause)
        pause = min(2 * pause, 0.1)


def _is_kept(thread: threading.Thread) -> bool:
    return thread.name in _PROCESS_WIDE or any(each.keeps_thread(thread) for each in KEEPERS)


def _children() -> set[int]:
    """Pids of this process's direct children and of those of ``PARENTS``, without those that have ended."""
    tasks = [task for pid in ("self", *PARENTS) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    listed = (_read(task / "children") for task in tasks)
    pids = {int(pid) for line in listed for pid in line.split()}
    return {pid for pid in pids if not _is_zombie(pid)}


def _read(path: pathlib.Path) -> str:
    """Empty if the thread or the process has ended meanwhile."""
    try:
        return path.read_text()
    except OSError:
        return ""


def _is_zombie(pid: int) -> bool:
    # The state follows the command's name, which stands in brackets.
    return _read(pathlib.Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[:1] in ([], ["Z"])


def _thread(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    stack = "".join(traceback.format_stack(frame, limit=6)) if frame is not None else ""
    return f"thread {thread.name} (daemon: {thread.daemon})\n{stack}"


def _process(pid: int) -> str:
    command = _read(pathlib.Path(f"/proc/{pid}/cmdline")).replace("\0", " ")
    return f"process {pid}: {command}"


def _logging() -> tuple[int, tuple[logging.Handler, ...]]:
    """Level and handlers of the root logger; pytest's own handlers come and go."""
    root = logging.getLogger()
    own = (each for each in root.handlers if not type(each).__module__.startswith("_pytest."))
    return root.level, tuple(own)


def _restore_logging(before: tuple[int, tuple[logging.Handler, ...]]) -> None:
    root = logging.getLogger()
    level, handlers = before
    root.setLevel(level)
    for handler in list(root.handlers):
        if handler not in handlers and not type(handler).__module__.startswith("_pytest."):
            root.removeHandler(handler)
