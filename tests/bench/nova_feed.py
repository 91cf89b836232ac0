# SPDX-License-Identifier: Apache-2.0
"""The feed over nova's tables, with 10,000 hosts in PostgreSQL: the first load, a poll, a full comparison."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa

from fleet.clock import seconds, utcnow
from fleet.db.nova.database import NovaDatabase
from fleet_trial import private_servers
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.nova.feed import NovaFeed
from scheduler.nova.polling import polled
from scheduler.nova.providers import ProviderFeed, ProviderNotes
from tests.bench import figures
from tests.factories import uuid
from tests.functional import nova_schema

HOSTS = 10_000
INSTANCES_A_HOST = 10
#: Of a nova with its defaults: each host updates its node once a minute, and each service sends a heartbeat in 10 s.
NODES_A_SECOND = HOSTS // 60
TRAITS_A_HOST = 50
POLLS = 20


def run() -> None:
    with private_servers.postgresql() as url:
        nova = nova_schema.Databases(url)
        nova.create()
        now = utcnow()
        fill(url, url, HOSTS, now - seconds(3600))
        _fill_placement(url, now - seconds(7200))
        for with_placement in (False, True):
            _measure(url, with_placement)


def _measure(url: str, with_placement: bool) -> None:
    with contextlib.ExitStack() as opened:
        api, placement = NovaDatabase(url, "api"), NovaDatabase(url, "placement")
        opened.callback(api.dispose)
        opened.callback(placement.dispose)
        incomplete: set[int] = set()
        feeds = [
            NovaFeed(
                api,
                lambda cell: NovaDatabase(cell.url, "cell"),
                incomplete=incomplete,
                providers=ProviderFeed(placement, ProviderNotes()) if with_placement else None,
            )
            for _ in range(2)
        ]
        for feed in feeds:
            opened.callback(feed.close)
        hosts = polled(HostManager)(*feeds, service_down_time_s=10**9)
        load = _measured(hosts.poll)
        idle = [_measured(hosts.poll) for _ in range(POLLS)]
        busy = []
        for number in range(POLLS):
            _touch(url, number)
            busy.append(_measured(hosts.poll))
            time.sleep(1)
        compare = _measured(hosts.compare)
        figures.report(
            "nova_feed",
            hosts=HOSTS,
            instances=HOSTS * INSTANCES_A_HOST,
            placement=with_placement,
            load_s=load["s"],
            load_cpu_s=load["cpu_s"],
            idle_poll_cpu_ms=_mean(idle, "cpu_s"),
            busy_poll_cpu_ms=_mean(busy, "cpu_s"),
            busy_poll_ms=_mean(busy, "s"),
            nodes_changed_a_poll=NODES_A_SECOND,
            compare_cpu_s=compare["cpu_s"],
        )


def fill(api_url: str, cell_url: str, hosts: int, now: datetime.datetime) -> None:
    """Write hosts with their mappings and services, and instances on them."""
    numbers = range(1, hosts + 1)
    stamps = {"created_at": now, "updated_at": now}
    with connected(api_url) as connection:
        connection.execute(
            nova_schema.HOST_MAPPINGS.insert(), [{"id": each, "cell_id": 2, "host": f"cmp{each}"} for each in numbers]
        )
    with connected(cell_url) as connection:
        connection.execute(
            nova_schema.SERVICES.insert(),
            [
                {
                    "id": each,
                    "host": f"cmp{each}",
                    "binary": "nova-compute",
                    "disabled": False,
                    "forced_down": False,
                    "last_seen_up": now,
                    "deleted": 0,
                    **stamps,
                }
                for each in numbers
            ],
        )
        connection.execute(nova_schema.NODES.insert(), [_node(each, stamps) for each in numbers])
        connection.execute(
            nova_schema.INSTANCES.insert(),
            [
                {
                    "id": each,
                    "uuid": uuid(each),
                    "host": f"cmp{each % hosts + 1}",
                    "node": f"cmp{each % hosts + 1}",
                    "vm_state": "active",
                    "project_id": "p1",
                    "instance_type_id": 1,
                    "deleted": 0,
                    **stamps,
                }
                for each in range(hosts * INSTANCES_A_HOST)
            ],
        )


def _fill_placement(url: str, now: datetime.datetime) -> None:
    """Write a provider for each host, with the traits of a libvirt host, and an allocation for each instance."""
    with connected(url) as connection:
        connection.execute(
            nova_schema.TRAITS.insert(), [{"id": 100 + each, "name": f"CUSTOM_{each}"} for each in range(TRAITS_A_HOST)]
        )
        hosts = "generate_series(1, :hosts) AS host"
        values = {"hosts": HOSTS, "uuids": 10**6, "now": now}
        name = "'00000000-0000-0000-0000-' || lpad(cast({} AS text), 12, '0')"
        for statement in (
            "INSERT INTO resource_providers (id, uuid, generation, root_provider_id)"
            f" SELECT host, {name.format('host + :uuids')}, 1, host FROM {hosts}",
            "INSERT INTO resource_provider_traits SELECT host, id FROM traits, " + hosts + " WHERE id >= 100",
            "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit,"
            f" step_size, allocation_ratio) SELECT host, class.id, 262144, 0, 1, 262144, 1, 1.0"
            f" FROM resource_classes class, {hosts}",
            "INSERT INTO allocations (resource_provider_id, resource_class_id, consumer_id, used, created_at)"
            f" SELECT host, class.id, {name.format('instance * :hosts + host')}, 1, :now"
            f" FROM resource_classes class, {hosts}, generate_series(0, {INSTANCES_A_HOST - 1}) AS instance",
        ):
            connection.execute(
                sa.text(statement), {key: each for key, each in values.items() if f":{key}" in statement}
            )


@contextlib.contextmanager
def connected(url: str) -> Iterator[sa.Connection]:
    """A transaction on a connection of its own."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def node_uuid(number: int) -> str:
    return uuid(10**6 + number)


def _node(number: int, stamps: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": number,
        "uuid": node_uuid(number),
        "host": f"cmp{number}",
        "hypervisor_hostname": f"cmp{number}",
        "vcpus": 64,
        "memory_mb": 262_144,
        "local_gb": 4096,
        "vcpus_used": INSTANCES_A_HOST,
        "memory_mb_used": 512 * (1 + INSTANCES_A_HOST),
        "local_gb_used": INSTANCES_A_HOST,
        "hypervisor_type": "QEMU",
        "hypervisor_version": 8_002_002,
        "host_ip": "192.0.2.1",
        "cpu_info": '{"arch": "x86_64", "model": "Cascadelake", "features": ["avx", "sse4.2"]}',
        "supported_instances": '[["x86_64", "kvm", "hvm"], ["i686", "kvm", "hvm"]]',
        "stats": '{"failed_builds": "0", "num_instances": "10", "io_workload": "0"}',
        "metrics": "[]",
        "running_vms": INSTANCES_A_HOST,
        "deleted": 0,
        **stamps,
    }


def _touch(url: str, number: int) -> None:
    """Do what the compute services do in a second: heartbeats, and some nodes with other numbers."""
    now = utcnow()
    first = number * NODES_A_SECOND % HOSTS
    nodes, services = nova_schema.NODES, nova_schema.SERVICES
    with connected(url) as connection:
        connection.execute(
            nodes.update()
            .where(nodes.c.id.between(first + 1, first + NODES_A_SECOND))
            .values(updated_at=now, memory_mb_used=nodes.c.memory_mb_used + 1)
        )
        providers = nova_schema.PROVIDERS
        connection.execute(
            providers.update()
            .where(providers.c.id.between(first + 1, first + NODES_A_SECOND))
            .values(generation=providers.c.generation + 1)
        )
        connection.execute(
            services.update().where(services.c.id % 10 == number % 10).values(updated_at=now, last_seen_up=now)
        )


def _measured(work: Callable[[], Any]) -> dict[str, float]:
    began, used = time.perf_counter(), time.process_time()
    work()
    return {"s": round(time.perf_counter() - began, 3), "cpu_s": round(time.process_time() - used, 4)}


def _mean(rounds: list[dict[str, float]], name: str) -> float:
    return round(1e3 * sum(each[name] for each in rounds) / len(rounds), 2)
