# SPDX-License-Identifier: Apache-2.0
"""The load of this machine's processors, with nova's names. ``compute_monitors`` names it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import psutil
from oslo_config import cfg

from compute_agent.monitors.base import Monitor

_SHARES = {"user": "user", "kernel": "system", "idle": "idle", "iowait": "iowait"}


class CpuMonitor(Monitor):
    """``cpu.frequency`` in MHz, if known. ``cpu.percent`` and its parts as a share, 0.0 to 1.0, of the time since the
    last measurement; ``cpu.percent`` is all that is not idle.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        times: Callable[[], Any] = psutil.cpu_times,
        frequency: Callable[[], Any] = psutil.cpu_freq,
    ) -> None:
        super().__init__(conf)
        self._times = times
        self._frequency = frequency
        self._before = times()._asdict()

    def measure(self) -> Mapping[str, float]:
        now = self._times()._asdict()
        passed = {kind: max(0.0, seconds - self._before[kind]) for kind, seconds in now.items()}
        self._before = now
        # Linux includes the guests' time in the users' time.
        total = sum(seconds for kind, seconds in passed.items() if not kind.startswith("guest"))
        metrics: dict[str, float] = {}
        if total:
            shares = {name: passed.get(kind, 0.0) / total for name, kind in _SHARES.items()}
            metrics = {f"cpu.{name}.percent": share for name, share in shares.items()}
            metrics["cpu.percent"] = 1.0 - shares["idle"] - shares["iowait"]
        return {**metrics, **self._measure_frequency()}

    def _measure_frequency(self) -> Mapping[str, float]:
        """Return the frequency; nothing on machines that do not show it, as many virtual ones."""
        try:
            found = self._frequency()
        except (NotImplementedError, OSError):
            return {}
        return {"cpu.frequency": found.current} if found else {}
