# SPDX-License-Identifier: Apache-2.0
"""The pressures of Linux on this machine (PSI): shares of the last minute in which work waited for CPU, or for memory.

``compute_monitors`` names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from oslo_config import cfg

from compute_agent.monitors.base import Monitor

_DIRECTORY = Path("/proc/pressure")
_KINDS = ("cpu", "memory")


class PressureMonitor(Monitor):
    """``cpu.pressure`` and ``memory.pressure``, from 0.0 to 1.0: ``avg60`` of the line ``some``. Needs a kernel with PSI."""

    def __init__(self, conf: cfg.ConfigOpts, directory: Path = _DIRECTORY) -> None:
        super().__init__(conf)
        self._directory = directory

    def measure(self) -> Mapping[str, float]:
        """:raises OSError: the kernel has no PSI, or does not turn it on. :raises ValueError: the file has another form"""
        return {f"{kind}.pressure": _share((self._directory / kind).read_text()) for kind in _KINDS}


def _share(text: str) -> float:
    """Return the share of a text such as ``some avg10=0.00 avg60=1.50 avg300=0.20 total=4711``."""
    for line in text.splitlines():
        kind, *pairs = line.split()
        if kind == "some":
            values = dict(pair.split("=", 1) for pair in pairs)
            return float(values["avg60"]) / 100
    raise ValueError("has no line 'some'")
