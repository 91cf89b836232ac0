# SPDX-License-Identifier: Apache-2.0
"""The agent of storage backends: its start, its reports and comparisons.

See ``fleet.agent.life``. Called by :mod:`volume_agent.main`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from oslo_log import log as logging

from fleet import context as fleet_context
from fleet import errors
from fleet.agent.life import Life, Process, Repeated, Served
from fleet.agent.patience import Unanswered
from volume_agent.backends.backend import Backend
from volume_agent.ledger.reporter import Reporter
from volume_agent.ledger.volume_calls import VolumeCalls
from volume_agent.manager import BackendManager
from volume_agent.work import recovery

LOG = logging.getLogger(__name__)

#: Seconds between two messages about copies under way. Users look at them; nothing else depends on them.
COPIES_S = 5.0


@dataclasses.dataclass
class ServedBackend(Served):
    backend: Backend
    manager: BackendManager


@dataclasses.dataclass(frozen=True)
class Intervals:
    """Seconds between heartbeats, and between reports (and comparisons)."""

    heartbeat_s: float
    report_s: float


class VolumeAgent(Life[ServedBackend]):
    """A backend that cannot be used at the start is tried again at each report, and served from then on."""

    noun = "backend"
    _reporter: Reporter

    def __init__(
        self,
        served: Sequence[ServedBackend],
        reporter: Reporter,
        calls: VolumeCalls,
        intervals: Intervals,
        process: Process,
    ) -> None:
        repeated = [
            Repeated("heartbeat", reporter.heartbeat, intervals.heartbeat_s),
            Repeated("report", self._begin, intervals.report_s),
            Repeated("comparison", self._compare, intervals.report_s),
            Repeated("copies", reporter.report_copies, COPIES_S),
        ]
        super().__init__(served, reporter, repeated, process)
        self._calls = calls

    def _begin(self) -> None:
        """Serve backends that were not usable until now, and report all pools.

        Queues before reports: a reported pool may be chosen, and an order without a queue fails.
        """
        for entry in list(self._served.values()):
            if entry.waits and not self._process.stopping.is_set() and self._is_recovered(entry):
                self._serve(entry)
        self._reporter.report()

    def _compare(self) -> None:
        for entry in list(self._served.values()):
            if entry.serving:
                recovery.remove_left(fleet_context.new_context(), entry.backend, self._calls, entry.queues)

    def _is_recovered(self, entry: ServedBackend) -> bool:
        try:
            recovery.recover(fleet_context.new_context(), entry.backend, self._calls, entry.manager.order)
        except Unanswered:
            raise
        except (OSError, errors.FleetError) as failure:
            LOG.error("Backend %s cannot be used: %s", entry.name, failure)
            return False
        except Exception:
            # A driver's bug must not keep the other backends of this process from being served.
            LOG.exception("Backend %s cannot be used", entry.name)
            return False
        return True
