# SPDX-License-Identifier: Apache-2.0
"""Builds a second, from the request to ACTIVE, with every part a real daemon on this machine; and what a build costs.

Processor time, messages, statements and commits of a build depend little on what else the machine does; builds a second
and latencies do. ``python_ms`` is the processor time of a fixed piece of Python: it shows how fast the machine was.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

import sqlalchemy as sa
from oslo_config import cfg

from fleet import conf as fleet_conf
from fleet.context import new_context
from fleet.db.tables import models
from fleet.rpc import transport
from fleet.rpc.clients import ComputeTaskAPI
from tests.amqp.daemons import eventually
from tests.bench import databases, figures, traffic
from tests.bench.daemons import Daemon, Site, site

BUILDS = 400
COUNTED = 100
#: Builds on an idle system, one after the other.
SINGLE = 40
#: Requests on their way into the conductor at a time; each is for so many instances.
CLIENTS = 8
SIZES = (1, 10)
FLAVOR = {"vcpus": 1, "memory_mb": 512, "root_gb": 1}
TIMEOUT_S = 240

_DEFAULT = """\
compute_driver = fake
rabbit_driver = {driver}
report_interval = 60
# What goes on without builds is not to be counted with them.
update_resources_interval = 3600
scheduler_instance_sync_interval = 0
rpc_response_timeout = 60
instances_path = {directory}/instances
scheduler_tracks_instance_changes = {hints}
"""
_FAKE = "[fake]\nvcpus = 256\nmemory_mb = 2097152\nlocal_gb = 20000\n[conductor]\nworkers = 1\n"


@dataclasses.dataclass(frozen=True)
class Shape:
    """A fleet: ``agents`` processes with ``hosts`` hosts each.

    :param hints: whether agents send hints about instances to the schedulers
    :param conductors: daemons with one worker each
    """

    agents: int
    hosts: int = 1
    server: str = "postgresql"
    hints: bool = True
    conductors: int = 1

    @property
    def name(self) -> str:
        more = [] if self.hints else ["untracked"]
        more += [f"{self.conductors}-conductors"] if self.conductors > 1 else []
        return "-".join([f"{self.agents}x{self.hosts}", self.server, *more])


_AGENTS = (1, 3, 6, 12, 24, 48)
SHAPES = (
    *(Shape(agents, server=server) for server in ("postgresql", "mariadb") for agents in _AGENTS),
    Shape(24, hints=False),
    Shape(1, 1_000),
)
#: Names of shapes, separated by commas; default: all.
CHOSEN = os.environ.get("FLEET_BENCH_BUILDS", "")
#: ``rabbit_driver`` of all daemons.
DRIVER = os.environ.get("FLEET_BENCH_DRIVER", "lean")


def run() -> None:
    chosen = [shape for shape in SHAPES if not CHOSEN or shape.name in CHOSEN.split(",")]
    for shape in chosen:
        with site(shape.server) as here:
            measure(here, shape)


def measure(here: Site, shape: Shape, **about: object) -> None:
    """Report builds of a fleet of this shape, alone and many at a time. :param about: further values of each line"""
    with _fleet(here, shape) as fleet, _client(fleet.config) as tasks:
        _build(here, tasks, COUNTED, 1)
        _measure_single(here, tasks, fleet, about)
        for size in SIZES:
            _measure(here, tasks, fleet, size, about)


@dataclasses.dataclass(frozen=True)
class BuildDaemons:
    shape: Shape
    config: str
    daemons: Mapping[str, Sequence[Daemon]]

    def pids(self) -> dict[str, Sequence[int]]:
        return {name: [daemon.process.pid for daemon in daemons] for name, daemons in self.daemons.items()}


@contextlib.contextmanager
def _fleet(here: Site, shape: Shape) -> Iterator[BuildDaemons]:
    default = _DEFAULT.format(directory=here.directory, hints=shape.hints, driver=DRIVER)
    config = here.config("builds", default, _FAKE)
    with contextlib.ExitStack() as running:
        parts = {
            name: [
                running.enter_context(here.daemon(f"{name}{number}", module, config, *_node(here, name, number)))
                for number in range(count)
            ]
            for name, module, count in (
                ("conductor", "conductor_stub.main", shape.conductors),
                ("scheduler", "scheduler.main", 1),
            )
        }
        parts["agent"] = [
            running.enter_context(here.starting(f"agent{number}", "compute_agent.main", config, "--hosts", hosts))
            for number, hosts in enumerate(_host_names(shape))
        ]
        for agent in parts["agent"]:
            agent.await_ready()
        eventually(lambda: _count(here, models.compute_nodes) == shape.agents * shape.hosts, timeout_s=TIMEOUT_S)
        yield BuildDaemons(shape, config, parts)


def _node(here: Site, name: str, number: int) -> list[str]:
    """Arguments for a conductor that uses another node of the database than the first conductor."""
    others = here.server.others
    if name != "conductor" or not number or not others:
        return []
    path = here.directory / f"node{number}.conf"
    path.write_text(f"[database]\nconnection = {others[(number - 1) % len(others)]}\n")
    return ["--config-file", str(path)]


def _host_names(shape: Shape) -> Iterator[str]:
    for number in range(shape.agents):
        first, last = number * shape.hosts + 1, (number + 1) * shape.hosts
        yield f"host[{first:04}-{last:04}]"


@contextlib.contextmanager
def _client(config: str) -> Iterator[ComputeTaskAPI]:
    conf = fleet_conf.load_config(["--config-file", config], prog="bench", conf=cfg.CONF)
    opened = transport.get_transport(conf)
    try:
        yield ComputeTaskAPI(opened, conf)
    finally:
        opened.cleanup()
        cfg.CONF.reset()


def _measure_single(here: Site, tasks: ComputeTaskAPI, fleet: BuildDaemons, about: Mapping[str, object]) -> None:
    """From the request to ACTIVE, where nothing else is built."""
    # One connection that waits for nothing: looking must not take the processor from what is looked at.
    with here.database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as looking:
        took = [_time_one(looking, tasks) for _each in range(SINGLE)]
    figures.report("builds-single", **about, shape=fleet.shape.name, driver=DRIVER, **figures.Times(took).to_line())


def _time_one(looking: sa.Connection, tasks: ComputeTaskAPI) -> float:
    began = time.perf_counter()
    answer = tasks.create(new_context(project_id="bench"), {"flavor": FLAVOR, "count": 1})
    this = models.instances.c.uuid == answer["instances"][0]["uuid"]
    state = sa.select(models.instances.c.vm_state).where(this).prefix_with(databases.OURS)
    while looking.execute(state).scalar_one() != "active":
        assert time.perf_counter() - began < TIMEOUT_S
        time.sleep(0.001)
    return time.perf_counter() - began


def _measure(here: Site, tasks: ComputeTaskAPI, fleet: BuildDaemons, size: int, about: Mapping[str, object]) -> None:
    _build(here, tasks, COUNTED, size)
    with here.server.counting() as count:
        before = count()
        _build(here, tasks, COUNTED, size)
        statements = (count() - before) / COUNTED
    pids = {**fleet.pids(), "broker": [here.broker.pid], "database": [here.server.pid]}
    python_ms = [_python_ms()]
    former, mine = traffic.read(here, pids), time.process_time()
    began = time.perf_counter()
    _build(here, tasks, BUILDS, size)
    took_s = time.perf_counter() - began
    client_s = time.process_time() - mine
    spent = traffic.read(here, pids).since(former)
    python_ms.append(_python_ms())
    cpu_ms = {name: spent_s / BUILDS * 1e3 for name, spent_s in (*spent.cpu_s.items(), ("client", client_s))}
    figures.report(
        "builds",
        **about,
        shape=fleet.shape.name,
        driver=DRIVER,
        instances_a_request=size,
        per_s=round(BUILDS / took_s, 1),
        messages=round(spent.published / BUILDS, 2),
        statements=round(statements, 2),
        commits=round(spent.commits / BUILDS, 2),
        **{f"{name}_cpu_ms": round(spent_ms, 2) for name, spent_ms in cpu_ms.items()},
        cpu_ms=round(sum(cpu_ms.values()), 2),
        agent_rss_mb=round(statistics.median(agent.worker_rss_mb() for agent in fleet.daemons["agent"]), 1),
        agent_pss_mb=round(statistics.median(agent.pss_mb() for agent in fleet.daemons["agent"]), 1),
        python_ms=round(statistics.mean(python_ms), 1),
    )


def _python_ms() -> float:
    began = time.process_time()
    total = 0
    for number in range(1_000_000):
        total += number % 7
    return (time.process_time() - began) * 1e3


def _build(here: Site, tasks: ComputeTaskAPI, builds: int, size: int) -> None:
    """Return when all are ACTIVE."""
    wanted = _active(here) + builds
    turns = iter(range(builds // size))
    lock = threading.Lock()

    def ask() -> None:
        while True:
            with lock:
                if next(turns, None) is None:
                    return
            tasks.create(new_context(project_id="bench"), {"flavor": FLAVOR, "count": size})

    clients = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    eventually(lambda: _active(here) >= wanted, timeout_s=TIMEOUT_S)


def _active(here: Site) -> int:
    return _count(here, models.instances, models.instances.c.vm_state == "active")


def _count(here: Site, table: sa.Table, *where: sa.ColumnElement[bool]) -> int:
    query = sa.select(sa.func.count()).select_from(table).where(*where).prefix_with(databases.OURS)
    with here.database.engine.connect() as connection:
        return connection.execute(query).scalar_one()
