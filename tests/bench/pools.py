# SPDX-License-Identifier: Apache-2.0
"""One decision among storage pools, beside one among as many hosts, and beside cinder's way: an object for each pool.

Processor time, taken in turns. Both pipelines have six filters and one weigher.
"""

from __future__ import annotations

import functools
import random
import statistics
import time
import uuid
from collections.abc import Callable
from typing import Any

from fleet.objects import RequestSpec
from scheduler.compute.drivers.loading import load_pipeline
from scheduler.engine import decide, pipeline
from scheduler.engine.decision import Decision
from scheduler.engine.pipeline import Pipeline
from scheduler.engine.request_cache import RequestCache
from scheduler.volumes import conf as volume_conf
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.volumes.drivers import loading
from scheduler.volumes.drivers.host_manager import HostManager
from tests import factories
from tests.bench import cinders_way, figures
from tests.bench.decision import Bench
from tests.clock import FakeClock
from tests.configuration import of_scheduler
from tests.unit.scheduler.volumes.pools import Pool

SIZES = (1_000, 10_000)
ROUNDS = {1_000: 200, 10_000: 60}
KINDS = 10
#: Capabilities that a report has besides.
_SPACE = (
    *("allocated_capacity_gb", "provisioned_capacity_gb", "reserved_percentage", "max_over_subscription_ratio"),
    "thin_provisioning_support",
)
FILTERS = [
    "RetryFilter",
    "AvailabilityZoneFilter",
    "RamFilter",
    "DiskFilter",
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
]
WEIGHERS = ["scheduler.weights.RAMWeigher"]


def make_pool(number: int, chance: random.Random) -> Pool:
    """Thin and thick pools of ten kinds, filled by anything from nothing to more than they have."""
    total = chance.choice([1_000.0, 5_000.0, 20_000.0])
    filled, thin = chance.random() * 1.1, chance.random() < 0.5
    report = {
        "volume_backend_name": f"kind{number % KINDS}",
        "storage_protocol": chance.choice(["iSCSI", "FC"]),
        "vendor_name": "vendor",
        "driver_version": "1.0",
        "QoS_support": False,
        "multiattach": True,
        "pool_name": f"p{number % 4}",
        "total_capacity_gb": total,
        "free_capacity_gb": max(0.0, total * (1 - filled)),
    }
    return Pool(
        f"m{number // 4:06d}@disks",
        f"p{number % 4}",
        id=number + 1,
        availability_zone=f"zone{number // 4 % 3}",
        total_capacity_gb=total,
        free_capacity_gb=report["free_capacity_gb"],
        allocated_capacity_gb=int(total * filled * 0.9),
        provisioned_capacity_gb=total * filled,
        reserved_percentage=10,
        max_over_subscription_ratio="2.0" if thin else None,
        thin_provisioning_support=thin,
        report=report,
    )


class _Feed:
    """Returns everything once, then nothing."""

    def __init__(self, pools: list[Pool]) -> None:
        self._changes = factories.changes(pools, full=True)  # type: ignore[arg-type]

    def read(self, since: int) -> Any:
        found, self._changes = self._changes, factories.changes((), since, services=[])
        return found


class Pools:
    """A cache of pools, and the default pipeline."""

    def __init__(self, count: int) -> None:
        chance = random.Random(1)
        self.pools = [make_pool(number, chance) for number in range(count)]
        feed = _Feed(self.pools)
        self.manager = HostManager(feed, feed, clock=FakeClock(factories.NOW))  # type: ignore[arg-type]
        self.manager.refresh()
        conf = of_scheduler()
        volume_conf.register_opts(conf)
        self.pipeline = loading.load_pipeline(conf)
        self.chance = random.Random(1)

    def request(self, size: int) -> VolumeRequest:
        spec = {
            "volume_id": str(uuid.UUID(int=self.chance.getrandbits(128))),
            "volume_properties": {"size": size, "availability_zone": "zone1"},
            "volume_type": {"extra_specs": {"volume_backend_name": f"kind{size % KINDS}"}},
        }
        return VolumeRequest.from_wire(spec)

    def decide(self, request: VolumeRequest) -> Decision:
        return _decided(self.pipeline, self.manager, request, self.chance)


def _decided(made: Pipeline, manager: Any, request: Any, chance: random.Random) -> Decision:
    """Decide without what was computed for earlier requests."""
    prepared = pipeline.prepare(made, request)
    work = functools.partial(decide.decide, made, prepared, chance=chance, cache=RequestCache())
    decision: Decision = manager.decide(work, request.instance_uuids)
    assert decision.complete
    return decision


def run() -> None:
    for count in SIZES:
        pools, hosts = Pools(count), Bench(count)
        hosts.pipeline = load_pipeline(
            of_scheduler(scheduler_default_filters=FILTERS, scheduler_weight_classes=WEIGHERS)
        )
        reference = cinder(pools.pools)
        times: dict[str, list[float]] = {"pools": [], "hosts": [], "cinder": []}
        for number in range(ROUNDS[count]):
            wanted, asked = pools.request(1 + number), _host_request(hosts, number)
            times["pools"].append(_spent(pools.decide, wanted))
            times["hosts"].append(_spent(_decided, hosts.pipeline, hosts.manager, asked, hosts.chance))
            if number % 10 == 0:
                times["cinder"].append(_spent(reference.decide, properties(wanted, 1 + number)))
        cost = {name: statistics.median(each) for name, each in times.items()}
        figures.report(
            "pools",
            pools=count,
            cpu_ms={name: round(each * 1e3, 3) for name, each in cost.items()},
            of_a_decision_among_hosts=round(cost["pools"] / cost["hosts"], 2),
            faster_than_cinders_way=round(cost["cinder"] / cost["pools"], 1),
        )


def _host_request(hosts: Bench, number: int) -> RequestSpec:
    """In a zone and with an extra spec, as for a pool."""
    wire = dict(hosts.request(number).request_spec)
    wire["instance_type"] = {**wire["instance_type"], "extra_specs": {"capabilities:hypervisor_type": "s== QEMU"}}
    wire["instance_properties"] = {**wire["instance_properties"], "availability_zone": "zone1"}
    return RequestSpec.from_wire(wire, {})


def _spent(work: Callable[..., object], *about: object) -> float:
    began = time.process_time()
    work(*about)
    return time.process_time() - began


def cinder(pools: list[Pool]) -> cinders_way.Scheduler:
    backends: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {}
    for pool in pools:
        host = pool.name.partition("#")[0]
        service = {"availability_zone": pool.availability_zone, "disabled": False, "updated_at": factories.NOW}
        space = {name: getattr(pool, name) for name in _SPACE}
        backends.setdefault(host, (service, []))[1].append({**pool.report, **space})
    return cinders_way.Scheduler(backends, factories.NOW)


def properties(asked: VolumeRequest, number: int) -> dict[str, Any]:
    """The request as cinder's filters get it."""
    volume_type = {"extra_specs": {"volume_backend_name": f"kind{number % KINDS}"}}
    wanted = {"size": asked.properties.size, "availability_zone": asked.properties.availability_zone}
    spec = {"volume_properties": wanted, "resource_properties": wanted, "volume_type": volume_type}
    retry = {"num_attempts": 1, "backends": [], "hosts": []}
    return {"request_spec": spec, "size": asked.properties.size, "resource_type": volume_type, "retry": retry}
