# SPDX-License-Identifier: Apache-2.0
"""Identifies a process by pid, start time and boot, so that a reused pid is not mistaken for it.

The local driver and the process beside each of its guests call it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import select
import signal
from typing import Any, Self

_BOOT_ID = pathlib.Path("/proc/sys/kernel/random/boot_id")
#: Fields of /proc/PID/stat after the command, which may contain spaces and brackets.
_STATE, _START_TICKS = 0, 19


@dataclasses.dataclass(frozen=True)
class Identity:
    """``start_ticks`` is the kernel's count since boot, which no change of the clock affects."""

    pid: int
    start_ticks: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """Return the identity; None if there is no such process."""
        fields = _stat(pid)
        return None if fields is None else cls(pid, int(fields[_START_TICKS]), _boot_id())

    @classmethod
    def from_dict(cls, values: dict[str, Any] | None) -> Self | None:
        return cls(**values) if values else None

    def to_dict(self) -> dict[str, object]:
        return dataclasses.asdict(self)

    def alive(self) -> bool:
        """Return True if this process runs; False if it only waits to be reaped."""
        fields = _stat(self.pid)
        if fields is None or fields[_STATE] in "ZX":
            return False
        return int(fields[_START_TICKS]) == self.start_ticks and _boot_id() == self.boot_id

    def send(self, number: signal.Signals) -> bool:
        """Signal this process; return False if it is gone."""
        with self._descriptor() as descriptor:
            if descriptor is None:
                return False
            try:
                signal.pidfd_send_signal(descriptor, number)
            except ProcessLookupError:
                return False
            return True

    def wait(self, timeout_s: float) -> bool:
        """Return True if it ends within ``timeout_s``."""
        with self._descriptor() as descriptor:
            if descriptor is None:
                return True
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            return bool(poll.poll(timeout_s * 1000))

    def signal_group(self, number: signal.Signals) -> bool:
        """Signal the process and its session; return False if it is gone."""
        if not self.alive():
            return False
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def kill_group(self) -> None:
        """Kill the process and its session. It is stopped first, so that it cannot end and release its pid."""
        if self.send(signal.SIGSTOP):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    @contextlib.contextmanager
    def _descriptor(self) -> Any:
        """Return a descriptor of this process, even if its pid is reused. It is opened first, and checked then."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            yield None
            return
        try:
            yield descriptor if self.alive() else None
        finally:
            os.close(descriptor)


def _stat(pid: int) -> list[str] | None:
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def _boot_id() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip()
