# SPDX-License-Identifier: Apache-2.0
"""Measures the load of hosts, for MetricsFilter and MetricsWeigher.

``base`` is the interface; ``cpu`` and ``pressure`` read the machine, ``guests`` the loads of single guests, for balancing.
``Monitors`` runs all configured monitors.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from oslo_config import cfg
from oslo_log import log as logging

from compute_agent.monitors.base import Monitor
from fleet.agent import loading
from fleet.clock import Clock, utcnow

LOG = logging.getLogger(__name__)

BUILT_IN = {
    "cpu": "compute_agent.monitors.cpu.CpuMonitor",
    "guests": "compute_agent.monitors.guests.GuestMonitor",
    "pressure": "compute_agent.monitors.pressure.PressureMonitor",
}
NAMESPACE = "fleet.compute.monitors"


@dataclasses.dataclass(frozen=True)
class Monitors:
    """The monitors that ``compute_monitors`` names."""

    monitors: Sequence[Monitor] = ()
    clock: Clock = utcnow

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Monitors:
        """:raises errors.ClassNotFound: naming the class"""
        classes = [
            loading.find_class("compute_monitors", name, Monitor, BUILT_IN, NAMESPACE) for name in conf.compute_monitors
        ]
        return cls([each(conf) for each in classes])

    @property
    def of_guests(self) -> bool:
        """True if the loads of single guests are reported."""
        return any(each.of_guests for each in self.monitors)

    def collect(self) -> list[dict[str, object]]:
        """Return ``name``, ``value``, ``timestamp`` (ISO 8601, UTC) and ``source`` of each metric.

        A monitor that fails, or returns a value that is no number, is one line in the log; the others are used.
        """
        return [metric for monitor in self.monitors for metric in self._collect(monitor)]

    def _collect(self, monitor: Monitor) -> list[dict[str, object]]:
        source = type(monitor).__name__
        try:
            values = {name: float(value) for name, value in monitor.measure().items()}
        except Exception as failure:
            LOG.warning("Monitor %s failed: %s: %s", source, type(failure).__name__, failure)
            return []
        wrong = sorted(name for name, value in values.items() if not math.isfinite(value))
        if wrong:
            LOG.warning("Monitor %s returned a value that is no number: %s", source, ", ".join(wrong))
        measured_at = self.clock().isoformat()
        return [
            {"name": name, "value": value, "timestamp": measured_at, "source": source}
            for name, value in values.items()
            if name not in wrong
        ]
