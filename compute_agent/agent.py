# SPDX-License-Identifier: Apache-2.0
"""The agent of hosts: its start, its audits, and its messages to the schedulers.

:mod:`compute_agent.main` makes it. See ``fleet.agent.life``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from compute_agent.ledger.build_calls import BuildCalls
from compute_agent.ledger.instance_info import InstanceInfo
from compute_agent.ledger.move_calls import MoveCalls
from compute_agent.ledger.reporter import Reporter
from compute_agent.node.host import Host
from compute_agent.work import comparison, recovery
from compute_agent.work.power_sync import PowerSync
from fleet import context as fleet_context
from fleet.agent.life import Life, Process, Repeated, Served


@dataclasses.dataclass
class ServedHost(Served):
    host: Host


@dataclasses.dataclass(frozen=True)
class Intervals:
    """Seconds between heartbeats, between audits, and between instance syncs.

    Without a sync interval there is one sync at start.
    """

    heartbeat_s: float
    audit_s: float
    sync_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class Calls:
    """The calls about instances: to conductors, and to schedulers (``told``)."""

    builds: BuildCalls
    moves: MoveCalls
    told: InstanceInfo


class Agent(Life[ServedHost]):
    noun = "host"
    _reporter: Reporter

    def __init__(
        self,
        served: Sequence[ServedHost],
        reporter: Reporter,
        calls: Calls,
        guests: PowerSync,
        intervals: Intervals,
        process: Process,
    ) -> None:
        repeated = [
            # Early: a host whose agent destroys what a crash has left must not count as down, and be fenced with its guests.
            Repeated("heartbeat", reporter.heartbeat, intervals.heartbeat_s, early=True),
            Repeated("audit", self._audit, intervals.audit_s),
        ]
        if intervals.sync_s > 0:
            repeated.append(Repeated("instance sync", self._sync, intervals.sync_s))
        super().__init__(served, reporter, repeated, process)
        self._calls = calls
        self._guests = guests

    def _begin(self) -> None:
        # A beginning that is repeated must not end the builds that have come since: audits compare what is served.
        for entry in (each for each in self._served.values() if each.waits):
            context = fleet_context.new_context()
            recovery.recover(context, entry.host, self._calls.builds, self._calls.moves, self._guests)
        reports = self._reporter.audit()
        # Queues before reports: a reported host may be chosen, and an order without a queue fails.
        for entry in self._served.values():
            self._serve(entry)
        self._reporter.send(reports)

    def _begun(self) -> None:
        for entry in self._served.values():
            changed = functools.partial(comparison.notice, entry.host, entry.queues, self._guests)
            entry.host.driver.register_event_listener(changed)
        self._sync()

    def _sync(self) -> None:
        """Send the instances on the served hosts to the schedulers."""
        self._calls.told.sync(entry.host for entry in self._served.values() if entry.serving)

    def _audit(self) -> None:
        self._reporter.report()
        # A driver that hangs would keep all later audits waiting.
        answering = [entry for entry in self._served.values() if entry.serving and not entry.host.hangs]
        served = [(entry.host, entry.queues) for entry in answering]
        comparison.compare(served, self._calls.builds, self._calls.moves, self._guests)
