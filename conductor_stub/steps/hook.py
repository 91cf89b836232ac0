# SPDX-License-Identifier: Apache-2.0
"""Runs a command of the operator's for one host, to its end or to a time limit.

The fence and the maintenance of hosts call it. The command of a maintenance goes on if its conductor dies; a fence must not.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, NamedTuple

from conductor_stub.steps import guard
from fleet.clock import seconds

#: Seconds of a lease for starting and killing a command, and for writing its outcome; and those of them for the start.
GRACE_S, START_S = 15, 10
#: Characters of the command's output that are kept.
_KEPT = 500
#: Bytes of output on the disk after which all but its end is removed, and seconds between two looks.
_MOST_BYTES, _LOOK_S = 2**20, 0.5


class Ended(NamedTuple):
    """The end of a command. ``message`` has its result, and the end of its output."""

    succeeded: bool
    message: str


def begin_by(lease_until: datetime.datetime, timeout_s: float) -> datetime.datetime:
    """Return the time from which on the command of a lease must not begin: another conductor may soon run it."""
    return lease_until - seconds(timeout_s + GRACE_S - START_S)


def run(command: Sequence[str], environment: Mapping[str, str], timeout_s: float, what: str) -> Ended:
    """Run the command to its end, or kill it and its session after ``timeout_s``. :param what: for messages"""
    with _output() as output:
        try:
            process = _start(command, environment, output, subprocess.DEVNULL, output)
        except (OSError, ValueError) as failure:
            return Ended(False, f"{what} cannot be run: {failure}")
        try:
            status = _wait(process, output, timeout_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            ended = Ended(False, f"{what} did not end within {timeout_s:g} s, and was killed")
        else:
            ended = _of_status(status, what)
        return _with_words(ended, output)


def run_guarded(command: Sequence[str], environment: Mapping[str, str], timeout_s: float, what: str) -> Ended:
    """Run the command as ``run`` does. The guard kills all processes that it has started: when it ends, when its time is
    over, or when this process ends.
    """
    guarded = [sys.executable, "-I", "-S", guard.__file__, repr(time.monotonic() + timeout_s), *command]
    with _output() as output:
        try:
            process = _start(guarded, environment, output, subprocess.PIPE, subprocess.PIPE)
        except (OSError, ValueError) as failure:
            return Ended(False, f"{what} cannot be run: {failure}")
        with process:
            try:
                status = _wait(process, output, timeout_s + guard.KILLING_S + _LOOK_S)
            except subprocess.TimeoutExpired:
                _kill(process)
                report = [guard.LATE]
            else:
                assert process.stdout is not None, "it is a pipe"
                report = process.stdout.read().decode(errors="replace").split() or [guard.ENDED, str(status)]
        return _with_words(_of_report(report, timeout_s, what), output)


def _start(
    command: Sequence[str], environment: Mapping[str, str], output: IO[bytes], stdin: int, stdout: IO[bytes] | int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=output,
        env={**os.environ, **environment},
        start_new_session=True,
    )


@contextlib.contextmanager
def _output() -> Iterator[IO[bytes]]:
    """A file: a pipe would be held open by what the command has left in the background."""
    with tempfile.TemporaryFile() as output:
        _append_only(output)
        yield output


def _append_only(output: IO[bytes]) -> None:
    """Let all processes that have the file write at its end, wherever that is: so it can be emptied beside them."""
    flags = fcntl.fcntl(output, fcntl.F_GETFL)
    fcntl.fcntl(output, fcntl.F_SETFL, flags | os.O_APPEND)


def _wait(process: subprocess.Popen[bytes], output: IO[bytes], timeout_s: float) -> int:
    """Wait for the end of the command. Meanwhile its output does not fill the disk.

    :raises subprocess.TimeoutExpired:
    """
    until = time.monotonic() + timeout_s
    while True:
        left_s = until - time.monotonic()
        try:
            return process.wait(min(max(left_s, 0), _LOOK_S))
        except subprocess.TimeoutExpired:
            if left_s <= _LOOK_S:
                raise
        _bound(output)


def _bound(output: IO[bytes]) -> None:
    size = os.fstat(output.fileno()).st_size
    if size > _MOST_BYTES:
        end = os.pread(output.fileno(), _KEPT, size - _KEPT)
        os.ftruncate(output.fileno(), 0)
        os.write(output.fileno(), end)


def _of_status(status: int, what: str) -> Ended:
    if status == 0:
        return Ended(True, f"{what} succeeded")
    how = f"exit status {status}" if status > 0 else f"signal {-status}"
    return Ended(False, f"{what} failed: {how}")


def _of_report(report: Sequence[str], timeout_s: float, what: str) -> Ended:
    """:param report: the words of the guard"""
    if report[0] == guard.CANNOT_RUN:
        return Ended(False, f"{what} cannot be run: {' '.join(report[1:])}")
    is_left = report[-1] == guard.LEFT
    if report[0] != guard.ENDED:
        killed = "not all of it could be killed" if is_left else "was killed"
        return Ended(False, f"{what} did not end within {timeout_s:g} s, and {killed}")
    ended = _of_status(int(report[1]), what)
    return (
        ended._replace(message=f"{ended.message}; what it has left runs on: it cannot be killed") if is_left else ended
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _with_words(ended: Ended, output: IO[bytes]) -> Ended:
    said = _read(output)
    return ended._replace(message=f"{ended.message}; it wrote: {said}") if said else ended


def _read(output: IO[bytes]) -> str:
    """Return the end of the command's output, as one printable line."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _KEPT))
    text = output.read(_KEPT).decode(errors="replace")
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())
