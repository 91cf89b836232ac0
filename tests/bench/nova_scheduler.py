# SPDX-License-Identifier: Apache-2.0
"""The same requests to nova-scheduler 34 and to fleet-scheduler in its place: latency, processor time, memory.

Both claim in the same placement, read the same databases, and are on the same broker, each on a virtual host of its own.
Both have their default filters and one worker. nova-scheduler asks placement for 1,000 hosts at most, its default.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import dataclasses
import pathlib
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import oslo_messaging
import sqlalchemy as sa
from oslo_config import cfg
from oslo_messaging import conffixture

from fleet.clock import utcnow
from fleet_trial import private_servers
from tests.bench import daemons, figures, nova_feed
from tests.nova import cloud as clouds
from tests.nova import databases
from tests.unit.scheduler.nova import recordings

SIZES = (100, 1_000, 5_000)
ROUNDS = 30
#: nova-scheduler may take seconds a request.
LONGEST_S = 120
CALLERS, THROUGHPUT_S = 4, 15
TURNS = 2
_NOVA, _FLEET = "nova-scheduler", "fleet-scheduler"
#: Of resource classes in placement: VCPU, MEMORY_MB, DISK_GB; then the total, and what the instances hold.
_INVENTORY = ((0, 64, 10), (1, 262_144, 5_120), (2, 4_096, 10))


def run() -> None:
    if not (clouds.VENV / "bin/nova-scheduler").exists():
        figures.report("nova", skipped=f"nova is not installed in {clouds.VENV}: make nova")
        return
    for hosts in SIZES:
        with (
            tempfile.TemporaryDirectory(prefix="fleet-bench-") as directory,
            private_servers.rabbitmq_node() as broker,
            databases.on_postgresql() as servers,
        ):
            cloud = clouds.Cloud(pathlib.Path(directory), broker, servers)
            try:
                prepare(cloud, hosts)
                with heartbeats(cloud):
                    _measure(cloud, broker, hosts)
            finally:
                cloud.stop()


@contextlib.contextmanager
def heartbeats(cloud: clouds.Cloud) -> Iterator[None]:
    """All compute services are seen every 10 s, as they are with nova's defaults."""
    ended = threading.Event()
    seen = "UPDATE services SET last_seen_up = now() AT TIME ZONE 'utc' WHERE \"binary\" = 'nova-compute'"

    def beat() -> None:
        while not ended.wait(10):
            cloud.databases.execute(seen, "nova")

    beating = threading.Thread(target=beat)
    beating.start()
    try:
        yield
    finally:
        ended.set()
        beating.join()


def prepare(cloud: clouds.Cloud, hosts: int) -> None:
    cloud.prepare()
    cloud.start_placement()
    cloud.let_read()
    version = int(cloud.run("python", "-c", "from nova.objects import service; print(service.SERVICE_VERSION)"))
    cloud.databases.execute(
        f"ALTER TABLE services ALTER report_count SET DEFAULT 0, ALTER version SET DEFAULT {version}", "nova"
    )
    nova_feed.fill(cloud.url("nova_api"), cloud.url("nova"), hosts, utcnow())
    cloud.databases.execute(f"SELECT setval('services_id_seq', {hosts})", "nova")
    cloud.databases.execute(
        "UPDATE compute_nodes SET free_ram_mb = memory_mb - memory_mb_used, free_disk_gb = local_gb - local_gb_used,"
        " cpu_allocation_ratio = 1, ram_allocation_ratio = 1, disk_allocation_ratio = 1",
        "nova",
    )
    with nova_feed.connected(cloud.url("placement")) as connection:
        _fill_placement(connection, hosts)


def _fill_placement(connection: sa.Connection, hosts: int) -> None:
    """Write what the compute services would report, and what the instances hold."""
    providers = [{"id": each, "uuid": nova_feed.node_uuid(each), "name": f"cmp{each}"} for each in range(1, hosts + 1)]
    connection.execute(
        sa.text(
            "INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id)"
            " VALUES (:id, :uuid, :name, 1, :id)"
        ),
        providers,
    )
    # nova-scheduler asks for providers with this trait only.
    connection.execute(
        sa.text(
            "INSERT INTO resource_provider_traits (trait_id, resource_provider_id)"
            " SELECT traits.id, resource_providers.id FROM traits, resource_providers WHERE traits.name = 'OWNER_NOVA'"
        )
    )
    for number, total, used in _INVENTORY:
        connection.execute(
            sa.text(
                "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit,"
                " step_size, allocation_ratio) SELECT id, :number, :total, 0, 1, :total, 1, 1.0 FROM resource_providers"
            ),
            {"number": number, "total": total},
        )
        connection.execute(
            sa.text(
                "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used)"
                " SELECT id, uuid, :number, :used FROM resource_providers"
            ),
            {"number": number, "used": used},
        )


def _measure(cloud: clouds.Cloud, broker: private_servers.RabbitMQ, hosts: int) -> None:
    callers = {_NOVA: Caller(cloud.broker_url), _FLEET: Caller(broker.vhost("fleet"))}
    cloud.spawn(_NOVA, cloud.nova_command(_NOVA, "controller"))
    cloud.broker_url = broker.vhost("fleet")
    cloud.start_fleet_scheduler(more="")
    clouds.eventually(callers[_NOVA].is_served)
    _compare(cloud, callers, hosts, candidates=False)
    # With a provider that might share its disk, the compute nodes' own inventories do not decide any more.
    _share_disk(cloud)
    asked_at = time.time()
    clouds.eventually(lambda: cloud.read_at() > asked_at)
    _compare(cloud, {_FLEET: callers[_FLEET]}, hosts, candidates=True)
    for caller in callers.values():
        caller.close()


def _compare(cloud: clouds.Cloud, callers: dict[str, Caller], hosts: int, candidates: bool) -> None:
    """:param candidates: True if fleet-scheduler asks placement for allocation candidates, as nova-scheduler always does"""
    times: dict[str, list[float]] = {name: [] for name in callers}
    for caller in callers.values():
        caller.ask()
    until = time.monotonic() + LONGEST_S
    for number in range(ROUNDS):
        for name in list(callers)[:: 1 if number % 2 else -1]:
            times[name].append(figures.timed(callers[name].ask))
        if time.monotonic() > until:
            break
    loads: dict[str, list[_Load]] = {name: [] for name in callers}
    for _turn in range(TURNS):
        for name, caller in callers.items():
            loads[name].append(_loaded(cloud, name, caller))
    for name in callers:
        found = figures.Times(times[name])
        figures.report(
            "nova",
            scheduler=name,
            candidates=candidates or name == _NOVA,
            hosts=hosts,
            requests=len(found.seconds),
            **found.to_line(),
            per_s=round(max(each.per_s for each in loads[name]), 2),
            cpu_ms=round(min(each.cpu_ms for each in loads[name]), 1),
            rss_mb=round(max(each.memory_info().rss for each in daemons.family(cloud.pid(name))) / 2**20, 1),
        )


@dataclasses.dataclass(frozen=True)
class _Load:
    """:param cpu_ms: processor time of the scheduler for one request, in milliseconds"""

    per_s: float
    cpu_ms: float


def _loaded(cloud: clouds.Cloud, name: str, caller: Caller) -> _Load:
    """Let several callers ask at once for a while."""
    before, began = daemons.cpu_s(cloud.pid(name)), time.monotonic()
    asked = caller.ask_for(CALLERS, THROUGHPUT_S)
    return _Load(asked / (time.monotonic() - began), 1e3 * (daemons.cpu_s(cloud.pid(name)) - before) / asked)


def _share_disk(cloud: clouds.Cloud) -> None:
    """Add a provider that can share its disk. No other provider is in its aggregate yet."""
    with nova_feed.connected(cloud.url("placement")) as connection:
        for statement in (
            "INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id)"
            f" VALUES (1000000, '{nova_feed.node_uuid(10**6)}', 'shared', 1, 1000000)",
            "INSERT INTO resource_provider_traits (trait_id, resource_provider_id)"
            " SELECT id, 1000000 FROM traits WHERE name = 'MISC_SHARES_VIA_AGGREGATE'",
            "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit,"
            " step_size, allocation_ratio) VALUES (1000000, 2, 1000, 0, 1, 1000, 1, 1.0)",
        ):
            connection.execute(sa.text(statement))


class Caller:
    """Calls a scheduler as nova's conductor does, with a recorded request for a new instance each time."""

    def __init__(self, url: str) -> None:
        conf = cfg.ConfigOpts()
        conffixture.ConfFixture(conf, url).setUp()
        conf([], default_config_files=[])
        self._transport = oslo_messaging.get_rpc_transport(conf)
        target = oslo_messaging.Target(topic="scheduler", version="4.5", exchange="nova")
        self._client = oslo_messaging.get_rpc_client(self._transport, target, timeout=120)
        recorded = recordings.message("req_build_1")
        self._context = {
            key.removeprefix("_context_"): each for key, each in recorded.items() if key.startswith("_context_")
        }
        self._arguments = recorded["args"]
        self._arguments["spec_obj"]["nova_object.data"]["scheduler_hints"] = {}

    def is_served(self) -> bool:
        try:
            self._client.prepare(timeout=30).call(
                self._context, "select_destinations", **self._request(str(uuid.uuid4()))
            )
        except oslo_messaging.MessagingTimeout:
            return False
        return True

    def ask(self, instance: str | None = None, **flavor: Any) -> Any:
        """Ask for one new instance.

        :param instance: its uuid; a new one if it is not given
        :param flavor: fields that differ from the recorded flavor
        """
        asked = self._request(instance or str(uuid.uuid4()), **flavor)
        return self._client.call(self._context, "select_destinations", **asked)

    def ask_for(self, callers: int, seconds: float) -> int:
        """Return how many requests are answered within some seconds when so many callers ask at once."""
        until = time.monotonic() + seconds
        with concurrent.futures.ThreadPoolExecutor(callers) as pool:
            return sum(pool.map(self._ask_until, [until] * callers))

    def _ask_until(self, until: float) -> int:
        asked = 0
        while time.monotonic() < until:
            self.ask()
            asked += 1
        return asked

    def close(self) -> None:
        self._transport.cleanup()

    def _request(self, instance: str, **flavor: Any) -> dict[str, Any]:
        made = copy.deepcopy(self._arguments)
        made["spec_obj"]["nova_object.data"]["flavor"]["nova_object.data"].update(flavor)
        made["instance_uuids"] = [instance]
        made["spec_obj"]["nova_object.data"]["instance_uuid"] = made["instance_uuids"][0]
        return made
