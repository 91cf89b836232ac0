# SPDX-License-Identifier: Apache-2.0
"""Builds per second, from the request to ACTIVE, with every part a real daemon on this machine; and what each one costs."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping

import sqlalchemy as sa
from oslo_config import cfg

from fleet import conf as fleet_conf
from fleet.context import new_context
from fleet.db import models
from fleet.rpc import transport
from fleet.rpc.clients import ComputeTaskAPI
from tests.amqp.daemons import eventually
from tests.bench import figures, traffic
from tests.bench.daemons import Site, site

HOSTS = 1_000
AGENT_PROCESSES = 1
BUILDS = 400
COUNTED = 60
#: Requests on their way into the conductor at a time; each is for so many instances.
CLIENTS = 8
SIZES = (1, 10)
FLAVOR = {"vcpus": 1, "memory_mb": 512, "root_gb": 1}
TIMEOUT_S = 240

_DEFAULT = """\
compute_driver = fake
report_interval = 30
# What goes on without builds is not to be counted with them.
update_resources_interval = 3600
scheduler_instance_sync_interval = 0
rpc_response_timeout = 60
instances_path = {directory}/instances
{more}"""
_FAKE = "[fake]\nvcpus = 64\nmemory_mb = 262144\nlocal_gb = 2000\n[conductor]\nworkers = 1\n"


def run() -> None:
    for told in (True, False):
        with site() as here, _fleet(here, told) as (config, parts):
            for size in SIZES:
                _measure(here, config, parts, size, told)


@contextlib.contextmanager
def _fleet(here: Site, told: bool) -> Iterator[tuple[str, Mapping[str, int]]]:
    """:param told: whether agents tell the schedulers of each instance, besides the ledger"""
    default = _DEFAULT.format(directory=here.directory, more=f"scheduler_tracks_instance_changes = {told}")
    config = here.config("builds", default, _FAKE)
    with contextlib.ExitStack() as running:
        parts = {
            "broker": here.broker.pid,
            "database": here.postgresql.pid,
        }
        for name, module in (("conductor", "conductor_stub.main"), ("scheduler", "scheduler.main")):
            parts[name] = running.enter_context(here.daemon(name, module, config)).process.pid
        each = HOSTS // AGENT_PROCESSES
        for number in range(AGENT_PROCESSES):
            hosts = f"host[{number * each + 1:04}-{(number + 1) * each:04}]"
            name = f"agent{number}"
            agent = running.enter_context(here.daemon(name, "compute_agent.main", config, "--hosts", hosts))
            parts[name] = agent.process.pid
        eventually(lambda: _count(here, models.compute_nodes) == HOSTS, timeout_s=TIMEOUT_S)
        yield config, parts


def _measure(here: Site, config: str, parts: Mapping[str, int], size: int, told: bool) -> None:
    conf = fleet_conf.load_config(["--config-file", config], prog="bench", conf=cfg.CONF)
    opened = transport.get_transport(conf)
    tasks = ComputeTaskAPI(opened, conf)
    _build(here, tasks, COUNTED, size)
    with traffic.statements(here) as count:
        before = count()
        _build(here, tasks, COUNTED, size)
        statements = (count() - before) / COUNTED
    former, mine = traffic.read(here, parts), time.process_time()
    began = time.perf_counter()
    _build(here, tasks, BUILDS, size)
    took_s = time.perf_counter() - began
    client_s = time.process_time() - mine
    spent = traffic.read(here, parts).since(former)
    per_s, messages = BUILDS / took_s, spent.published / BUILDS
    figures.report(
        "builds",
        hosts=HOSTS,
        instances_a_request=size,
        schedulers_told=told,
        per_s=round(per_s, 1),
        messages=round(messages, 2),
        per_s_per_message=round(per_s / messages, 1),
        statements=round(statements, 1),
        commits=round(spent.commits / BUILDS, 1),
        client_cpu_ms=round(client_s / BUILDS * 1e3, 2),
        **{f"{name}_cpu_ms": round(spent_s / BUILDS * 1e3, 2) for name, spent_s in spent.cpu_s.items()},
    )
    opened.cleanup()
    cfg.CONF.reset()


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
    with here.database.engine.connect() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(table).where(*where)).scalar_one()
