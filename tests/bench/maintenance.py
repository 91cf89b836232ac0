# SPDX-License-Identifier: Apache-2.0
"""A maintenance of 200 simulated hosts with real daemons, while conductors, agents and the broker are killed.

``FLEET_BENCH_HOSTS`` and ``FLEET_BENCH_GUESTS`` are other sizes. Each kill comes when a twentieth of the hosts more are
done. It reports waves, moves of a guest, time, kills, and losses: guests that do not run, hosts that take no builds.
"""

from __future__ import annotations

import collections
import itertools
import os
import pathlib
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

from fleet_trial import private_servers
from tests.amqp.daemons import Trio, eventually, running
from tests.bench import figures

NAME = "kernel"
_AT_A_TIME, _MOVES = 20, 20
#: Guests of one request.
_TOGETHER = 100
_WITHIN_S = 1800.0
_AGENTS = 2
_LIVE_S = 0.5
#: A hook whose conductor has died runs again after this time.
_HOOK_S = 10


def run() -> None:
    hosts = int(os.environ.get("FLEET_BENCH_HOSTS", "200"))
    guests = int(os.environ.get("FLEET_BENCH_GUESTS", "800"))
    with tempfile.TemporaryDirectory(prefix="fleet-maintained-") as scratch:
        directory = pathlib.Path(scratch)
        with private_servers.rabbitmq_node() as broker, private_servers.postgresql() as database:
            sections = f"[maintenance]\nhooks = work:{sys.executable} -c pass\nhook_timeout = {_HOOK_S}\n"
            limits = "max_live_migrations_per_host = 8\n"
            more = {"fake": f"live_migration_delay = {_LIVE_S}\n", "conductor": limits, "more": sections}
            with running(Trio(directory, broker.url, database, **more)) as trio:
                _Run(trio, broker, hosts, guests).run()


class _Run:
    def __init__(self, trio: Trio, broker: private_servers.RabbitMQ, hosts: int, guests: int) -> None:
        self._trio = trio
        self._broker = broker
        self._hosts, self._guests = hosts, guests
        self._killed: collections.Counter[str] = collections.Counter()

    def run(self) -> None:
        uuids = self._fill()
        began = time.monotonic()
        arguments = ("--hosts", self._names(), "--at-a-time", str(_AT_A_TIME), "--moves-at-a-time", str(_MOVES))
        begun = self._trio.cli("maintenance", "run", *arguments, "--hook", "work", "--name", NAME)
        planned = re.search(
            r"hosts in (\d+) waves \(no plan for them has fewer than (\d+)\)", begun.stderr + begun.stdout
        )
        if begun.returncode or planned is None:
            raise RuntimeError(begun.stdout + begun.stderr)
        planned_s = time.monotonic() - began
        self._hurt()
        eventually(lambda: self._shown()["maintenance"]["ended_at"] is not None, timeout_s=_WITHIN_S)
        took_s = time.monotonic() - began
        moves = [each for each in self._trio.operator("list_migrations", filters={}) if each["instance_uuid"] in uuids]
        done = [each for each in moves if each["status"] == "completed"]
        states = {each["uuid"]: each["vm_state"] for each in self._trio.operator("list_instances", brief=True)}
        figures.report(
            "maintenance",
            hosts=self._hosts,
            guests=len(uuids),
            waves=int(planned[1]),
            waves_at_least=int(planned[2]),
            planned_s=round(planned_s, 1),
            seconds=round(took_s),
            moves=len(done),
            moves_of_a_guest=round(len(done) / max(1, len({each["instance_uuid"] for each in done})), 3),
            failed_moves=len(moves) - len(done),
            kills=dict(self._killed),
            hosts_done=collections.Counter(each["status"] for each in self._shown()["hosts"])["done"],
            guests_lost=sum(states.get(uuid) != "active" for uuid in uuids),
            hosts_disabled=sum(each["status"] != "enabled" for each in self._trio.operator("list_services")),
        )

    def _names(self) -> str:
        return ",".join(f"m{number}" for number in range(1, self._hosts + 1))

    def _fill(self) -> Sequence[str]:
        trio = self._trio
        trio.manage("db", "sync")
        for number in range(2):
            trio.start(f"conductor-{number}", "fleet-conductor")
        trio.start("scheduler", "fleet-scheduler")
        each = self._hosts // _AGENTS
        for number in range(_AGENTS):
            trio.start(f"agent-{number}", "fleet-compute", "--hosts", f"m[{number * each + 1}-{(number + 1) * each}]")
        trio.wait_for_hosts(each * _AGENTS)
        trio.wait_for_service("fleet-scheduler")
        flavor = {"vcpus": 2, "memory_mb": 4096, "root_gb": 10}
        uuids = [
            uuid
            for _request in range(self._guests // _TOGETHER)
            for uuid in trio.boot(name="web", flavor=flavor, count=_TOGETHER)
        ]
        eventually(lambda: self._counted() >= len(uuids), timeout_s=_WITHIN_S)
        return uuids

    def _counted(self) -> int:
        return sum(each["vm_state"] == "active" for each in self._trio.operator("list_instances", brief=True))

    def _shown(self) -> dict:
        return dict(self._trio.operator("show_maintenance", name=NAME))

    def _done(self) -> int:
        return sum(each["ended_at"] is not None for each in self._shown()["hosts"])

    def _hurt(self) -> None:
        """Kill one after the other, each when a twentieth of the hosts more are done."""
        names = ("conductor-0", "agent-0", "conductor-1", "broker", "agent-1", "scheduler")
        for name in itertools.islice(itertools.cycle(names), 16):
            before = self._done()
            enough = min(self._hosts, before + max(1, self._hosts // 20))
            eventually(lambda enough=enough: self._done() >= enough, timeout_s=_WITHIN_S)  # type: ignore[misc]
            if self._done() >= self._hosts:
                return
            self._ways()[name.partition("-")[0]](name)
            self._killed[name.partition("-")[0]] += 1

    def _ways(self) -> dict[str, Callable[[str], None]]:
        def daemon(name: str) -> None:
            self._trio.kill(name)
            self._trio.restart(name)

        def broker(_name: str) -> None:
            self._broker.kill()
            self._broker.start()

        return {"conductor": daemon, "agent": daemon, "scheduler": daemon, "broker": broker}
