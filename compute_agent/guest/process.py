# SPDX-License-Identifier: Apache-2.0
"""A process known for certain: by pid, start time and boot, so that a recycled pid is never taken for it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import select
import signal
from typing import Any, Self

_BOOT_ID = pathlib.Path("/proc/sys/kernel/random/boot_id")
#: Fields of /proc/PID/stat after the command, which may itself hold spaces and brackets.
_STATE, _START_TICKS = 0, 19


@dataclasses.dataclass(frozen=True)
class Identity:
    """``start_ticks`` is the kernel's own count since boot: unlike a time of day, no clock step changes it."""

    pid: int
    start_ticks: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """None when there is no such process."""
        fields = _stat(pid)
        return None if fields is None else cls(pid, int(fields[_START_TICKS]), _boot_id())

    @classmethod
    def from_dict(cls, values: dict[str, Any] | None) -> Self | None:
        return cls(**values) if values else None

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def alive(self) -> bool:
        """Whether this very process runs; one that only waits to be reaped does not."""
        fields = _stat(self.pid)
        if fields is None or fields[_STATE] in "ZX":
            return False
        return int(fields[_START_TICKS]) == self.start_ticks and _boot_id() == self.boot_id

    def send(self, number: signal.Signals) -> bool:
        """Signal this very process; False when it is gone."""
        with self._descriptor() as descriptor:
            if descriptor is None:
                return False
            try:
                signal.pidfd_send_signal(descriptor, number)
            except ProcessLookupError:
                return False
            return True

    def wait(self, timeout_s: float) -> bool:
        """Whether it is gone within ``timeout_s``."""
        with self._descriptor() as descriptor:
            if descriptor is None:
                return True
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            return bool(poll.poll(timeout_s * 1000))

    def kill_group(self) -> None:
        """Kill it and all that it started in its session. Stopped first, it cannot end and pass its pid on."""
        if self.send(signal.SIGSTOP):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    @contextlib.contextmanager
    def _descriptor(self) -> Any:
        """A descriptor that names the process whatever becomes of its pid; opened first, compared after."""
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
