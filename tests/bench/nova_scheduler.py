# SPDX-License-Identifier: Apache-2.0
"""The same requests to nova-scheduler 34 and to fleet-scheduler in its place: latency, requests a second, memory.

Both claim in the same placement, read the same databases, and are on the same broker, each on a virtual host of its own.
Both have their default filters and one worker. nova-scheduler asks placement for 1,000 hosts at most, its default.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
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
from tests.nova.conftest import let_read
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
            private_servers.postgresql_server() as postgres,
        ):
            cloud = clouds.Cloud(pathlib.Path(directory), broker, postgres)
            try:
                _prepare(cloud, hosts)
                with _heartbeats(cloud):
                    _measure(cloud, broker, hosts)
            finally:
                cloud.stop()


@contextlib.contextmanager
def _heartbeats(cloud: clouds.Cloud) -> Iterator[None]:
    """All compute services are seen every 10 s, as they are with nova's defaults."""
    ended = threading.Event()
    seen = "UPDATE services SET last_seen_up = now() AT TIME ZONE 'utc' WHERE \"binary\" = 'nova-compute'"

    def beat() -> None:
        while not ended.wait(10):
            cloud.postgres.execute(seen, "nova")

    beating = threading.Thread(target=beat)
    beating.start()
    try:
        yield
    finally:
        ended.set()
        beating.join()


def _prepare(cloud: clouds.Cloud, hosts: int) -> None:
    cloud.prepare()
    let_read(cloud)
    cloud.start_placement()
    version = int(cloud.run("python", "-c", "from nova.objects import service; print(service.SERVICE_VERSION)"))
    cloud.postgres.execute(
        f"ALTER TABLE services ALTER report_count SET DEFAULT 0, ALTER version SET DEFAULT {version}", "nova"
    )
    nova_feed.fill(cloud.url("nova_api"), cloud.url("nova"), hosts, utcnow())
    cloud.postgres.execute(f"SELECT setval('services_id_seq', {hosts})", "nova")
    cloud.postgres.execute(
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
    times: dict[str, list[float]] = {name: [] for name in callers}
    for caller in callers.values():
        caller.ask()
    until = time.monotonic() + LONGEST_S
    for number in range(ROUNDS):
        for name in list(callers)[:: 1 if number % 2 else -1]:
            times[name].append(figures.timed(callers[name].ask))
        if time.monotonic() > until:
            break
    rates: dict[str, list[float]] = {name: [] for name in callers}
    for _turn in range(TURNS):
        for name, caller in callers.items():
            rates[name].append(caller.per_second(CALLERS, THROUGHPUT_S))
    for name, caller in callers.items():
        found = figures.Times(times[name])
        figures.report(
            "nova",
            scheduler=name,
            hosts=hosts,
            requests=len(found.seconds),
            **found.to_line(),
            per_s=round(max(rates[name]), 2),
            rss_mb=round(max(each.memory_info().rss for each in daemons.family(cloud.pid(name))) / 2**20, 1),
        )
        caller.close()


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
            self._client.prepare(timeout=30).call(self._context, "select_destinations", **self._request())
        except oslo_messaging.MessagingTimeout:
            return False
        return True

    def ask(self) -> Any:
        return self._client.call(self._context, "select_destinations", **self._request())

    def per_second(self, callers: int, seconds: float) -> float:
        """Requests a second that are answered when so many callers ask at once."""
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(callers) as pool:
            counts = list(pool.map(self._ask_until, [began + seconds] * callers))
        return sum(counts) / (time.monotonic() - began)

    def _ask_until(self, until: float) -> int:
        asked = 0
        while time.monotonic() < until:
            self.ask()
            asked += 1
        return asked

    def close(self) -> None:
        self._transport.cleanup()

    def _request(self) -> dict[str, Any]:
        made = copy.deepcopy(self._arguments)
        made["instance_uuids"] = [str(uuid.uuid4())]
        made["spec_obj"]["nova_object.data"]["instance_uuid"] = made["instance_uuids"][0]
        return made
