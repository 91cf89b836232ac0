# SPDX-License-Identifier: Apache-2.0
"""Sets the metrics of hosts by state, and of what they give away.

Each conductor does so, with the same numbers. Called by :mod:`conductor_stub.agents.wiring`.
"""

from __future__ import annotations

from fleet.clock import Clock
from fleet.db.engine.database import Database
from fleet.db.hosts import totals
from fleet.telemetry import metrics

#: Seconds between two readings.
PERIOD_S = 15
_STATES = {True: "up", False: "down"}
_STATUSES = {True: "enabled", False: "disabled"}
_NOTHING = totals.Totals(0, dict.fromkeys(totals.RESOURCES, 0.0), dict.fromkeys(totals.RESOURCES, 0.0))


class HostGauges:
    """:param clock: the database's time"""

    def __init__(self, database: Database, service_down_time_s: float, clock: Clock) -> None:
        self._database = database
        self._service_down_time_s = service_down_time_s
        self._clock = clock

    def read(self) -> None:
        found = self._database.read(totals.read, self._clock(), self._service_down_time_s)
        for is_up, state in _STATES.items():
            for is_enabled, status in _STATUSES.items():
                here = found.get((is_up, is_enabled), _NOTHING)
                metrics.HOSTS.labels(state, status).set(here.hosts)
                for kind, sums in (("used", here.used), ("limit", here.limit)):
                    for name, amount in sums.items():
                        metrics.RESOURCES.labels(name, kind, state, status).set(amount)
