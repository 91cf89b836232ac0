# SPDX-License-Identifier: Apache-2.0
"""A shadow beside nova-scheduler 34 for 1,000 requests: its report, its processor time, and what comparing costs."""

from __future__ import annotations

import contextlib
import json
import pathlib
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import oslo_messaging
import sqlalchemy as sa

from fleet.clock import epoch_s, seconds, utcnow
from fleet.context import new_context
from fleet.db.nova.database import NovaDatabase
from fleet.json_codec import JSONObject
from fleet.rpc.endpoint import require_size
from fleet.rpc.notifier import Silence
from fleet_trial import private_servers
from scheduler.compute.drivers import driver_loading
from scheduler.nova import decoder
from scheduler.nova.feed import NovaFeed
from scheduler.nova.placing import Placing
from scheduler.nova.polling import polled
from scheduler.nova.shadow.shadow import Shadow
from scheduler.why.shadow.ledger import ShadowLedger
from tests.bench import daemons, figures, nova_feed, nova_scheduler
from tests.bench.nova_scheduler import Caller
from tests.factories import uuid
from tests.functional import nova_schema
from tests.nova import cloud as clouds
from tests.nova import databases
from tests.unit.scheduler.nova import recordings
from tests.unit.scheduler.plugins import configuration

HOSTS, REQUESTS = 50, 1_000
#: Hosts of the measurement in one process.
MANY = 1_000
#: The shadow looks for placed servers, and writes its report, after so many requests: every 2 s and 10 s of ten a second.
_LOOK_AFTER, _SAVE_AFTER = 20, 100
#: Name, memory in MB and vcpus; the last fits nowhere.
FLAVORS = (("s", 512, 1), ("m", 2_048, 2), ("l", 8_192, 4), ("xl", 16_384, 8), ("huge", 512_000, 1))
#: Two requests of a hundred are for the flavor that fits nowhere.
SHARES = (40, 30, 20, 8, 2)
_MORE = "[shadow]\nreport_file = {path}\n[DEFAULT]\n"
_CLAIMED = (
    "UPDATE compute_nodes SET memory_mb_used = memory_mb_used + :mb, vcpus_used = vcpus_used + :vcpus,"
    " local_gb_used = local_gb_used + 1, free_ram_mb = free_ram_mb - :mb, free_disk_gb = free_disk_gb - 1,"
    " running_vms = running_vms + 1, updated_at = :now WHERE host = :host"
)
_FIRST_CLAIMS = "DELETE FROM allocations WHERE consumer_id NOT IN (SELECT uuid FROM resource_providers)"
#: Hosts that differ, so that nova's choice is no lot among equal ones.
_UNEQUAL = (
    "UPDATE compute_nodes SET memory_mb_used = memory_mb_used + 37 * id, free_ram_mb = free_ram_mb - 37 * id",
    "UPDATE allocations SET used = used + 37 * resource_provider_id WHERE resource_class_id = 1",
)


def run() -> None:
    _share()
    if not (clouds.VENV / "bin/nova-scheduler").exists():
        figures.report("nova_shadow", skipped=f"nova is not installed in {clouds.VENV}: make nova")
        return
    with (
        tempfile.TemporaryDirectory(prefix="fleet-bench-") as directory,
        private_servers.rabbitmq_node() as broker,
        databases.on_postgresql() as servers,
    ):
        cloud = clouds.Cloud(pathlib.Path(directory), broker, servers)
        try:
            nova_scheduler.prepare(cloud, HOSTS)
            for database, statement in zip(("nova", "placement"), _UNEQUAL, strict=True):
                servers.execute(statement, database)
            with nova_scheduler.heartbeats(cloud):
                _beside_nova(cloud)
        finally:
            cloud.stop()


def _beside_nova(cloud: clouds.Cloud) -> None:
    report = cloud.directory / "shadow.json"
    cloud.spawn("nova-scheduler", cloud.nova_command("nova-scheduler", "controller"))
    caller = Caller(cloud.broker_url)
    clouds.eventually(caller.is_served)
    # What the first requests have claimed, no row of nova shows.
    cloud.databases.execute(_FIRST_CLAIMS, "placement")
    cloud.start_fleet_scheduler("shadow", _MORE.format(path=report), ["--shadow"])
    clouds.eventually(lambda: "Copies of the messages" in cloud.log("shadow"))
    chance = random.Random(35)
    before = {name: daemons.cpu_s(cloud.pid(name)) for name in ("nova-scheduler", "shadow")}
    engine = sa.create_engine(cloud.url("nova"), poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        placed = sum(_ask(caller, connection, chance, number) for number in range(REQUESTS))
    used = {name: daemons.cpu_s(cloud.pid(name)) - spent for name, spent in before.items()}
    clouds.eventually(lambda: placed <= sum(each["count"] for each in _sums(report)), 120)
    by_kind: dict[str, int] = {}
    for each in _sums(report):
        by_kind[each["kind"]] = by_kind.get(each["kind"], 0) + each["count"]
    figures.report(
        "nova_shadow",
        hosts=HOSTS,
        requests=REQUESTS,
        placed=placed,
        **{kind.replace(" ", "_"): count for kind, count in sorted(by_kind.items())},
        nova_cpu_ms=round(1e3 * used["nova-scheduler"] / REQUESTS, 1),
        shadow_cpu_ms=round(1e3 * used["shadow"] / REQUESTS, 1),
    )
    print(cloud.fleet_text("shadow", "report", "--file", str(report), program="fleet-manage"), flush=True)
    caller.close()


def _ask(caller: Caller, connection: sa.Connection, chance: random.Random, number: int) -> bool:
    """Ask nova-scheduler, and write what nova-compute writes of the server; return False if there is no host."""
    ((name, memory_mb, vcpus),) = chance.choices(FLAVORS, SHARES)
    asked = uuid(5 * 10**6 + number)
    try:
        found = caller.ask(asked, name=name, memory_mb=memory_mb, vcpus=vcpus, root_gb=1)
    except oslo_messaging.RemoteError:
        return False
    host, now = found[0][0]["nova_object.data"]["service_host"], utcnow()
    connection.execute(sa.text(_CLAIMED), {"mb": memory_mb, "vcpus": vcpus, "now": now, "host": host})
    row = {"id": 10**6 + number, "uuid": asked, "host": host, "node": host, "vm_state": "active", "project_id": "p1"}
    connection.execute(nova_schema.INSTANCES.insert(), {**row, "deleted": 0, "created_at": now, "updated_at": now})
    return True


def _sums(report: pathlib.Path) -> list[JSONObject]:
    return list(json.loads(report.read_text())["sums"]) if report.exists() else []


def _share() -> None:
    """Measure in one process how much comparing and reporting add to reading and deciding a request."""
    with (
        private_servers.postgresql() as url,
        tempfile.TemporaryDirectory() as directory,
        contextlib.ExitStack() as opened,
    ):
        nova_schema.Databases(url).create()
        nova_feed.fill(url, url, MANY, utcnow() - seconds(3600))
        incomplete: set[int] = set()

        def feed() -> NovaFeed:
            api = NovaDatabase(url, "api")
            opened.callback(api.dispose)
            made = NovaFeed(api, lambda cell: NovaDatabase(cell.url, "cell"), incomplete=incomplete)
            opened.callback(made.close)
            return made

        conf = configuration(service_down_time=10**9)
        driver = driver_loading.build_driver(conf, feed, Silence(), adapt=polled)
        driver.host_manager.refresh()
        placing = Placing(driver, None, 2, "nova")
        messages = [_message(number) for number in range(REQUESTS)]
        ledger = ShadowLedger(pathlib.Path(directory) / "shadow.json", 0.0, lambda: epoch_s(utcnow()))
        shadow = Shadow(driver, placing, ledger)

        def decide() -> None:
            for message in messages:
                require_size(message["args"], "arguments")
                request = decoder.decode(message["args"]).request
                driver.survey(new_context(), placing.prepared(request))

        def compare() -> None:
            for number, message in enumerate(messages):
                shadow.take(message)
                if not number % _LOOK_AFTER:
                    shadow.look()
                if not number % _SAVE_AFTER:
                    ledger.save()

        works: Sequence[Callable[[], None]] = (decide, compare)
        deciding, all_of_it = (min(_cpu_s(work) for _turn in range(3)) for work in works)
        figures.report(
            "nova_shadow_share",
            hosts=MANY,
            requests=REQUESTS,
            deciding_cpu_ms=round(1e3 * deciding / REQUESTS, 3),
            comparing_share=round(all_of_it / deciding - 1, 3),
        )


def _message(number: int) -> JSONObject:
    made: JSONObject = recordings.message("req_build_1")
    made["args"]["spec_obj"]["nova_object.data"]["scheduler_hints"] = {}
    made["args"]["instance_uuids"] = [uuid(6 * 10**6 + number)]
    return made


def _cpu_s(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
