# SPDX-License-Identifier: Apache-2.0
"""Volumes a second beside builds a second, from the request to the end, on the same real daemons, in turns.

Builds and volumes have as many agents, hosts and backends, with drivers that do nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator

from oslo_config import cfg

from fleet import conf as fleet_conf
from fleet.context import new_context
from fleet.db.tables import models
from fleet.rpc import transport
from fleet.rpc.clients import ComputeTaskAPI, OperatorAPI
from tests.amqp.daemons import eventually
from tests.bench import builds, figures, traffic
from tests.bench.daemons import Daemon, Site, site

AGENTS, EACH = 4, 6
COUNT = int(os.environ.get("FLEET_BENCH_VOLUMES", "300"))
ROUNDS = 3
_VOLUMES = """\
[backend_defaults]
volume_driver = fake
fake_pools = p:1000000
"""


@dataclasses.dataclass(frozen=True)
class VolumeDaemons:
    here: Site
    tasks: ComputeTaskAPI
    operator: OperatorAPI
    daemons: dict[str, list[Daemon]]

    def pids(self) -> dict[str, list[int]]:
        found = {name: [each.process.pid for each in daemons] for name, daemons in self.daemons.items()}
        return {**found, "broker": [self.here.broker.pid], "database": [self.here.server.pid]}

    def build(self, size: int) -> None:
        self.tasks.create(new_context(project_id="bench"), {"flavor": builds.FLAVOR, "count": size})

    def create(self, size: int) -> None:
        self.operator.call(new_context(project_id="bench"), "create_volumes", request={"size": 1, "count": size})

    def built(self) -> int:
        return builds._count(self.here, models.instances, models.instances.c.vm_state == "active")

    def created(self) -> int:
        return builds._count(self.here, models.volumes, models.volumes.c.status == "available")


def run() -> None:
    with site("postgresql") as here, _fleet(here) as fleet:
        kinds: dict[str, tuple[Callable[[int], None], Callable[[], int]]] = {
            "builds": (fleet.build, fleet.built),
            "volumes": (fleet.create, fleet.created),
        }
        for size in builds.SIZES:
            per_s: dict[str, list[float]] = {kind: [] for kind in kinds}
            for number in range(ROUNDS + 1):
                for kind, (ask, count) in kinds.items():
                    former, began = traffic.read(here, fleet.pids()), time.perf_counter()
                    _run(ask, count, size)
                    took_s, spent = time.perf_counter() - began, traffic.read(here, fleet.pids()).since(former)
                    if number == 0:
                        # The first round only warms up.
                        continue
                    per_s[kind].append(COUNT / took_s)
                    cpu_ms = {name: round(s / COUNT * 1e3, 2) for name, s in spent.cpu_s.items()}
                    figures.report(
                        f"volumes-{kind}",
                        a_request=size,
                        per_s=round(COUNT / took_s, 1),
                        messages=round(spent.published / COUNT, 2),
                        commits=round(spent.commits / COUNT, 2),
                        cpu_ms=cpu_ms,
                        all_cpu_ms=round(sum(cpu_ms.values()), 2),
                    )
            ratio = statistics.median(per_s["volumes"]) / statistics.median(per_s["builds"])
            figures.report("volumes", a_request=size, volumes_per_build=round(ratio, 2))


@contextlib.contextmanager
def _fleet(here: Site) -> Iterator[VolumeDaemons]:
    default = builds._DEFAULT.format(directory=here.directory, hints=True, driver=builds.DRIVER)
    config = here.config("volumes", f"{default}backend_stats_polling_interval = 600\n", builds._FAKE + _VOLUMES)
    with contextlib.ExitStack() as running:
        parts = {
            name: [running.enter_context(here.daemon(name, module, config))]
            for name, module in (("conductor", "conductor_stub.main"), ("scheduler", "scheduler.main"))
        }
        parts["agent"], parts["volume"] = [], []
        for number in range(AGENTS):
            hosts = f"host{number}[1-{EACH}]"
            own = here.directory / f"volume{number}.conf"
            own.write_text(
                f"[DEFAULT]\nhost = m{number}\nenabled_backends = b[1-{EACH}]\n"
                f"volume_state_path = {here.directory}/volume{number}\n"
            )
            agent = here.starting(f"agent{number}", "compute_agent.main", config, "--hosts", hosts)
            parts["agent"].append(running.enter_context(agent))
            volume = here.starting(f"volume{number}", "volume_agent.main", config, "--config-file", str(own))
            parts["volume"].append(running.enter_context(volume))
        for daemon in [*parts["agent"], *parts["volume"]]:
            daemon.await_ready()
        everything = AGENTS * EACH
        eventually(lambda: builds._count(here, models.compute_nodes) == everything, timeout_s=builds.TIMEOUT_S)
        eventually(lambda: builds._count(here, models.storage_pools) == everything, timeout_s=builds.TIMEOUT_S)
        with _client(config) as (tasks, operator):
            yield VolumeDaemons(here, tasks, operator, parts)


@contextlib.contextmanager
def _client(config: str) -> Iterator[tuple[ComputeTaskAPI, OperatorAPI]]:
    conf = fleet_conf.load_config(["--config-file", config], prog="bench", conf=cfg.CONF)
    opened = transport.get_transport(conf)
    try:
        yield ComputeTaskAPI(opened, conf), OperatorAPI(opened, conf)
    finally:
        opened.cleanup()
        cfg.CONF.reset()


def _run(ask: Callable[[int], None], count: Callable[[], int], size: int) -> None:
    """Return when all are there."""
    wanted, turns, lock = count() + COUNT, iter(range(COUNT // size)), threading.Lock()

    def work() -> None:
        while True:
            with lock:
                if next(turns, None) is None:
                    return
            ask(size)

    clients = [threading.Thread(target=work) for _ in range(builds.CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    eventually(lambda: count() >= wanted, timeout_s=builds.TIMEOUT_S)
