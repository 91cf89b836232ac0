# SPDX-License-Identifier: Apache-2.0
"""Processes of :mod:`tests.amqp.launcher`, with the methods of :class:`subprocess.Popen` that the tests use."""

from __future__ import annotations

import atexit
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

from tests import leftovers

#: Seconds between two looks whether a process has ended.
_LOOK_S = 0.02


class Launched:
    """One process."""

    def __init__(self, launcher: Launcher, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._launcher = launcher

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._launcher.ask(poll=self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """:raises subprocess.TimeoutExpired: it did not end in time"""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            time.sleep(_LOOK_S)
        return status

    def terminate(self) -> None:
        """Send SIGTERM, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)


class Launcher:
    """The process starts at once; its children may be started by any thread."""

    def __init__(self, *arguments: str) -> None:
        self._one_at_a_time = threading.Lock()
        command = [sys.executable, "-m", "tests.amqp.launcher", *arguments]
        # In a session of its own: Ctrl-C and timeout(1) signal a whole process group, and tests stop daemons through it.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        leftovers.KEEPERS.append(self)
        leftovers.PARENTS.append(self._process.pid)

    def start(
        self, words: Sequence[str], environment: dict[str, str], printed: pathlib.Path, complained: pathlib.Path
    ) -> Launched:
        """Start a program of ours, which appends what it writes to these files."""
        files = {"printed": str(printed), "complained": str(complained)}
        return Launched(self, self.ask(start={"words": list(words), "environment": environment, **files}))

    def run(self, words: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a program to its end."""
        with tempfile.TemporaryDirectory(prefix="fleet-launched-") as directory:
            printed, complained = (pathlib.Path(directory) / name for name in ("printed", "complained"))
            status = self.start(words, environment, printed, complained).wait()
            return subprocess.CompletedProcess(words, status, printed.read_text(), complained.read_text())

    def ask(self, **question: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._one_at_a_time:
            print(json.dumps(question), file=self._process.stdin, flush=True)
            return json.loads(self._process.stdout.readline())

    def keeps_process(self, pid: int) -> bool:
        return pid == self._process.pid

    def keeps_thread(self, _thread: object) -> bool:
        return False

    def close(self) -> None:
        leftovers.KEEPERS.remove(self)
        leftovers.PARENTS.remove(self._process.pid)
        self._process.communicate()


@functools.cache
def launcher(*arguments: str) -> Launcher:
    """The one of this process with these arguments, from the first use on."""
    made = Launcher(*arguments)
    atexit.register(made.close)
    return made
