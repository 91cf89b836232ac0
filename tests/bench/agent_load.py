# SPDX-License-Identifier: Apache-2.0
"""Run by ``agents``: sends the messages of many agents with the agents' own code, until it is ended.

It prints ``begun`` when all agents are registered, speaks from the next line of its input on, and prints how late the agents
spoke after ``--seconds``.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import sys
import threading
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any

from oslo_config import cfg

from compute_agent import conf as agent_conf
from compute_agent.drivers.fake import FakeDriver
from compute_agent.ledger.last_report import LastReports
from compute_agent.ledger.reporter import Reporter
from compute_agent.node.host import Host
from compute_agent.node.inventory import HostPolicy
from fleet import conf as fleet_conf
from fleet.agent.patience import Patience
from fleet.objects import HostReport
from fleet.rpc.clients import ConductorAPI
from fleet.rpc.transport import get_transport
from tests.bench import fleets

#: Agents that register at the same time.
REGISTRATIONS = 48
#: Bytes of the stack of a thread; each agent has one, as it waits for its answers alone.
STACK = 256 * 1024


class Agent:
    """One host's agent, but for its builds. It audits once: nothing changes here."""

    def __init__(self, number: int, conf: cfg.ConfigOpts, driver: FakeDriver, conductor: ConductorAPI) -> None:
        name = fleets.name_of(number)
        driver.init_host(name)
        self.host = Host(name, driver, HostPolicy.from_conf(conf), f"life-{number}", lambda _name, _reason: None)
        patience = Patience(threading.Event())
        told = LastReports(conf.inventory_resend_interval)
        self._reporter = Reporter(conductor, patience, [self.host], f"life-{number}", last_told=told)
        self._reports: list[HostReport] = []

    def begin(self) -> None:
        self._reporter.register()
        self._reports = self._reporter.audit()
        self._reporter.send(self._reports)

    def beat(self) -> None:
        self._reporter.heartbeat()

    def report(self) -> None:
        self._reporter.send(self._reports)


class Timetable:
    """Calls what is due, over and over, on a pool of threads. ``late_s`` holds how late each was begun."""

    def __init__(self, pool: futures.Executor) -> None:
        self._pool = pool
        self._due: list[tuple[float, int, float, Callable[[], object]]] = []
        #: Numbers of the calls that have not been answered. An agent makes each of its calls once at a time.
        self._under_way: set[int] = set()
        self.late_s: list[float] = []
        self.done = 0

    def every(self, interval_s: float, first_s: float, work: Callable[[], object]) -> None:
        heapq.heappush(self._due, (time.monotonic() + first_s, len(self._due), interval_s, work))

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self._due[0][0] < end:
            due, number, interval_s, work = self._due[0]
            time.sleep(max(0.0, due - time.monotonic()))
            heapq.heapreplace(self._due, (due + interval_s, number, interval_s, work))
            if number not in self._under_way:
                self._under_way.add(number)
                self._pool.submit(self._do, number, due, work)

    def _do(self, number: int, due: float, work: Callable[[], object]) -> None:
        self.late_s.append(time.monotonic() - due)
        try:
            work()
            self.done += 1
        finally:
            self._under_way.discard(number)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, kind in (("--config-file", str), ("--agents", int), ("--first", int), ("--seconds", float)):
        parser.add_argument(name, type=kind, required=True)
    arguments = parser.parse_args()
    conf = fleet_conf.load_config(
        ["--config-file", arguments.config_file], "agent-load", register=[agent_conf.register_opts], setup_logging=False
    )
    conductor = ConductorAPI(get_transport(conf), conf)
    driver = FakeDriver(conf)
    numbers = range(arguments.first, arguments.first + arguments.agents)
    agents = [Agent(number, conf, driver, conductor) for number in numbers]
    with futures.ThreadPoolExecutor(REGISTRATIONS) as pool:
        list(pool.map(Agent.begin, agents))
    print("begun", flush=True)
    sys.stdin.readline()
    threading.stack_size(STACK)
    with futures.ThreadPoolExecutor(len(agents)) as pool:
        _speak(conf, agents, pool, arguments.seconds)


def _speak(conf: cfg.ConfigOpts, agents: list[Agent], pool: futures.Executor, seconds: float) -> None:
    table, chance = Timetable(pool), random.Random(1)
    for each in agents:
        table.every(conf.report_interval, chance.uniform(0, conf.report_interval), each.beat)
        audit_s = conf.update_resources_interval
        table.every(audit_s, chance.uniform(0, audit_s), each.report)
    table.run(seconds)
    late = sorted(table.late_s)
    answer: dict[str, Any] = {"done": table.done, "late_p99_s": round(late[int(len(late) * 0.99)], 3)}
    print(json.dumps(answer), flush=True)
    table.run(float("inf"))


if __name__ == "__main__":
    main()
