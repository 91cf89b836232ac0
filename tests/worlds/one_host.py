# SPDX-License-Identifier: Apache-2.0
"""One host of a compute agent over a ledger in memory, for unit tests of the agent's parts."""

from __future__ import annotations

import dataclasses
from typing import Any

from oslo_config import cfg

from compute_agent.drivers.fake import FakeDriver
from compute_agent.ledger.build_calls import BuildCalls
from compute_agent.ledger.notifications import Notifications
from compute_agent.ledger.reporter import Reporter
from compute_agent.node.host import Host
from compute_agent.node.inventory import HostPolicy
from compute_agent.node.resource_tracker import ResourceTracker
from compute_agent.work import comparison
from compute_agent.work.build import BuildRunner
from compute_agent.work.power_sync import PowerSync
from fleet.agent.patience import Patience
from fleet.agent.work_queues import WorkQueues
from fleet.objects import Instance
from tests.unit.compute_agent import builders
from tests.unit.compute_agent.builders import HOST, INCARNATION
from tests.worlds.agent_ledger import AgentLedger


@dataclasses.dataclass
class OneHost:
    """One host on the fake driver with a conductor in memory."""

    conductor: AgentLedger
    driver: FakeDriver
    host: Host
    ledger: BuildCalls
    builder: BuildRunner
    reporter: Reporter
    stopping: builders.Pauses
    superseded: list[str]
    guests: PowerSync

    def compare(self) -> int:
        """Compare with the ledger and settle at once what differs; how many instances that was."""
        executor = builders.ThreadExecutor()
        looked_at = comparison.compare([(self.host, WorkQueues(executor, slots=0))], self.ledger, guests=self.guests)
        executor.join()
        return looked_at

    @property
    def tracker(self) -> ResourceTracker:
        return self.host.trackers()[0]

    def build(self, instance: Instance, **order: Any) -> None:
        self.builder.run(builders.a_context(), builders.an_order(instance, **order))


def one_host(
    conf: cfg.ConfigOpts | None = None,
    driver: FakeDriver | None = None,
    audited: bool = True,
    notifications: Notifications | None = None,
) -> OneHost:
    conf = conf or builders.a_conf(reserved_host_memory_mb=0)
    conductor, clock = AgentLedger(), builders.SteppingClock()
    conductor.incarnations[HOST] = INCARNATION
    stopping = builders.Pauses(clock)
    patience = Patience(stopping, clock)
    driver = driver or FakeDriver(conf, pause=lambda seconds: None)
    driver.init_host(HOST)
    superseded: list[str] = []
    host = Host(HOST, driver, HostPolicy.from_conf(conf), INCARNATION, lambda name, reason: superseded.append(reason))
    ledger = BuildCalls(conductor, conductor, patience, conf.claim_timeout)
    reporter = Reporter(conductor, patience, [host], INCARNATION)
    if audited:
        reporter.audit()
    builder = BuildRunner(host, ledger, notifications or Notifications())
    guests = PowerSync(ledger, notifications or Notifications(), conf.lost_guest_action)
    return OneHost(conductor, driver, host, ledger, builder, reporter, stopping, superseded, guests)
