# SPDX-License-Identifier: Apache-2.0
"""Runs a command that must not outlive its time, its conductor, or its own end: ``guard.py UNTIL COMMAND...``.

:mod:`conductor_stub.steps.hook` starts it for fences. It uses the standard library only, so that it starts in milliseconds.
Its standard input is a pipe that the conductor holds open: the kernel closes it, however the conductor ends. On standard
output it says how the command has ended; the command itself writes to standard error.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

#: Of Linux's <sys/prctl.h>.
_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
#: Seconds for the end of all that is killed, and between two looks at it.
KILLING_S, _LOOK_S = 2.0, 0.01
#: Words of the report. The status of the command follows ENDED, and a reason CANNOT_RUN.
ENDED, LATE, CANNOT_RUN = "ended", "late", "cannot-run"
#: Last word of the report: not all of it could be killed.
LEFT = "left"


def main(until: float, command: list[str]) -> str:
    """Run the command, and kill what is left of it. :param until: by the monotonic clock, which all processes share"""
    libc = ctypes.CDLL(None)
    # Processes that the command leaves behind become children of this one, also those in sessions of their own.
    libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken = _wake_on_signals()
    if time.monotonic() >= until:
        return LATE
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            start_new_session=True,
            # Safe here: this process has one thread. The command ends with its guard, too.
            preexec_fn=lambda: libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0),
        )
    except (OSError, ValueError, subprocess.SubprocessError) as failure:
        return f"{CANNOT_RUN} {failure}"
    status = _wait(process, until, woken)
    report = LATE if status is None else f"{ENDED} {status}"
    return report if _kill_all() else f"{report} {LEFT}"


def _wake_on_signals() -> int:
    """Return a file descriptor that is readable after a signal. Those that end processes end the conductor, not its guard:
    it decides what becomes of the command.
    """
    woken, wakes = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    for each in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, lambda _number, _frame: None)
    return woken


def _wait(process: subprocess.Popen[bytes], until: float, woken: int) -> int | None:
    """Return the status of the command; None if its time is over, or its conductor has ended."""
    while process.poll() is None:
        ready, _, _ = select.select([0, woken], [], [], max(0.0, until - time.monotonic()))
        if not ready or 0 in ready:
            return process.poll()
        os.read(woken, 512)
    return process.returncode


def _kill_all() -> bool:
    """Kill the children until there are none: those of a child that dies become children of this process.

    Return False if some are left, as of another user.
    """
    until = time.monotonic() + KILLING_S
    while time.monotonic() < until:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        for child in _children():
            # It is not reaped before the next look, so its number is not that of another process.
            with contextlib.suppress(PermissionError):
                os.kill(child, signal.SIGKILL)
        time.sleep(_LOOK_S)
    return False


def _children() -> list[int]:
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
            # The name of a program may have blanks and parentheses.
            if int(stat.read().rpartition(b")")[2].split()[1]) == os.getpid():
                found.append(int(name))
    return found


if __name__ == "__main__":
    print(main(float(sys.argv[1]), sys.argv[2:]))
