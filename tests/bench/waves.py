# SPDX-License-Identifier: Apache-2.0
"""Plans of maintenances on generated fleets: waves beside the bound, moves of a guest, and the time of the plan."""

from __future__ import annotations

import random
import time

from fleet.db.feed.feed import Changes
from fleet.objects.waves import WavesGoal
from fleet.objects.whatif import Demand
from fleet.telemetry import process_memory
from scheduler.compute.planning import waves
from tests import factories
from tests.bench import figures
from tests.configuration import of_scheduler

#: Hosts, hosts of a wave, and the share of a host's vcpus that is in use on average.
_FLEETS = ((200, 20, 0.7), (1000, 50, 0.7), (1000, 50, 0.9))
_VCPUS, _GB_A_VCPU = 64, 4
_SIZES = (2, 4, 4, 8, 8, 12)


def run() -> None:
    process_memory.collect_rarely()  # as the program fleet does
    for hosts, at_a_time, share in _FLEETS:
        state, sizes, where = fleet(hosts, share)
        began, processor = time.perf_counter(), time.process_time()
        plan = waves.run(
            of_scheduler(),
            state,
            WavesGoal([node.host for node in state.nodes], at_a_time),
            lambda uuid, sizes=sizes, where=where: request(uuid, sizes[uuid], where[uuid]),  # type: ignore[misc]
            lambda _host: None,
        )
        moves = sum(len(each.moves) for each in plan.waves)
        figures.report(
            "waves",
            hosts=hosts,
            guests=len(sizes),
            at_a_time=at_a_time,
            share=share,
            waves=len(plan.waves),
            bound=plan.bound,
            moves_a_guest=round(moves / plan.guests, 3),
            left_out=len(plan.stuck),
            seconds=round(time.perf_counter() - began, 2),
            processor_s=round(time.process_time() - processor, 2),
        )


def fleet(hosts: int, share: float, most: int = 12) -> tuple[Changes, dict[str, int], dict[str, str]]:
    """Return the state, and by guest its vcpus and its host. :param most: vcpus of a guest"""
    chance = random.Random(1)
    sizes: dict[str, int] = {}
    where: dict[str, str] = {}
    nodes, rows = [], []
    for number in range(hosts):
        host, used = f"h{number:04}", 0
        while used + (size := min(chance.choice(_SIZES), most)) <= _VCPUS * min(1.0, share * chance.uniform(0.8, 1.2)):
            used += size
            uuid = factories.uuid(len(sizes) + 1)
            sizes[uuid], where[uuid] = size, host
            rows.append(factories.PlacedInstance(uuid, host, host))
        memory_mb = _VCPUS * _GB_A_VCPU * 1024
        nodes.append(
            factories.node(
                host,
                vcpus=_VCPUS,
                vcpus_used=used,
                memory_mb=memory_mb,
                memory_mb_used=used * _GB_A_VCPU * 1024,
                local_gb=1000,
                cpu_allocation_ratio=1.0,
                ram_allocation_ratio=1.0,
            )
        )
    return factories.changes(nodes, instances=rows), sizes, where


def request(uuid: str, vcpus: int, host: str, memory_mb: int = 0) -> Demand:
    """:param memory_mb: 0: as much for each vcpu as hosts have"""
    memory_mb = memory_mb or vcpus * _GB_A_VCPU * 1024
    held = {"memory_mb": memory_mb, "disk_gb": 0, "vcpus": vcpus}
    spec = {
        "instance_type": {"vcpus": vcpus, "memory_mb": memory_mb},
        "num_instances": 1,
        "instance_uuids": [uuid],
        "instance_properties": {"uuid": uuid},
        "holding": {"instance_uuid": uuid, "host": host, "node": host, "claimed": held},
    }
    return Demand(spec, {"force_hosts": [host]}, [None])


def new(count: int, vcpus: int) -> Demand:
    """Return a request for new instances of this size."""
    uuids = [factories.uuid(10**9 + number) for number in range(count)]
    spec = {
        "instance_type": {"vcpus": vcpus, "memory_mb": vcpus * _GB_A_VCPU * 1024},
        "num_instances": count,
        "instance_uuids": uuids,
        "instance_properties": {"uuid": uuids[0]},
    }
    return Demand(spec, {}, [None] * count)
