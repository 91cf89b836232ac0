# SPDX-License-Identifier: Apache-2.0
"""Runs the command that switches a host off."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import IO

#: Characters of the command's output that are kept.
_KEPT = 500


@dataclasses.dataclass(frozen=True)
class Order:
    """A fence to be run. :param attempt: its number, from 1 on"""

    command: Sequence[str]
    host: str
    recovery: str
    attempt: int
    timeout_s: float

    def environment(self) -> Mapping[str, str]:
        return {
            "FLEET_HOST": self.host,
            "FLEET_RECOVERY": self.recovery,
            "FLEET_FENCE_ATTEMPT": str(self.attempt),
            "FLEET_FENCE_TIMEOUT": f"{self.timeout_s:g}",
        }


@dataclasses.dataclass(frozen=True)
class Outcome:
    """:param is_off: the host is certainly off"""

    is_off: bool
    message: str


Fence = Callable[[Order], Outcome]


def run(order: Order) -> Outcome:
    """Run the command to its end, or kill it and what it has started after ``timeout_s``."""
    # A file: a pipe would be held open by what the command has left in the background.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                [*order.command, order.host],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **order.environment()},
                start_new_session=True,
            )
        except (OSError, ValueError) as failure:
            return Outcome(False, f"the fence cannot be run: {failure}")
        try:
            status = process.wait(order.timeout_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            outcome = Outcome(False, f"the fence did not end within {order.timeout_s:g} s, and was killed")
        else:
            outcome = _ended(status)
        said = _read(output)
    return dataclasses.replace(outcome, message=f"{outcome.message}; it wrote: {said}") if said else outcome


def _ended(status: int) -> Outcome:
    if status == 0:
        return Outcome(True, "the fence succeeded")
    how = f"exit status {status}" if status > 0 else f"signal {-status}"
    return Outcome(False, f"the fence failed: {how}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(output: IO[bytes]) -> str:
    """The end of what the command has written, as one printable line."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _KEPT))
    text = output.read(_KEPT).decode(errors="replace")
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())
