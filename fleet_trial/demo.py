# SPDX-License-Identifier: Apache-2.0
"""The batch of ``make demo`` and its report. :mod:`fleet_trial.trio` runs it."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping

from fleet import states
from fleet.client import faults, following, pages
from fleet.client.calls import Calls
from fleet.client.connection import Record
from fleet.objects import instance_group

HOSTS = 5
_TIMEOUT_S = 45

SMALL = {"name": "small", "vcpus": 1, "memory_mb": 2048, "root_gb": 10}
MEDIUM = {"name": "medium", "vcpus": 4, "memory_mb": 8192, "root_gb": 40}
LARGE = {"name": "large", "vcpus": 8, "memory_mb": 16384, "root_gb": 80}
HUGE = {"name": "huge", "vcpus": 8, "memory_mb": 131072, "root_gb": 80}

Hosts = list[str]
Expectation = Callable[[Hosts], bool]


@dataclasses.dataclass(frozen=True)
class Order:
    """One request of the batch, and the expected result."""

    name: str
    flavor: Mapping[str, object]
    count: int
    story: str
    expected: Expectation
    policy: str = ""


BATCH = (
    Order("web", SMALL, 4, "four small ones, spread where there is room", lambda hosts: len(hosts) == 4),
    Order("batch", LARGE, 2, "two large ones", lambda hosts: len(hosts) == 2),
    Order("db", MEDIUM, 3, "an anti-affinity group: no two together", lambda hosts: len(set(hosts)) == 3,
          instance_group.ANTI_AFFINITY),
    Order("cache", SMALL, 3, "an affinity group: all together", lambda hosts: len(hosts) == 3 and len(set(hosts)) == 1,
          instance_group.AFFINITY),
    Order("huge", HUGE, 1, "128 GB on hosts of 32 GB: impossible", lambda hosts: not hosts),
)  # fmt: skip


def run(conductor: Calls) -> bool:
    """Boot the batch and print the host of each instance, and why one has none. Return True if all is as expected."""
    print(f"Booting {sum(order.count for order in BATCH)} instances on {HOSTS} simulated hosts (16 CPUs, 32 GB each):")
    for flavor in (SMALL, MEDIUM, LARGE, HUGE):
        conductor.operator.create_flavor(flavor=dict(flavor))
    accepted = {order.name: _boot(conductor, order) for order in BATCH}
    uuids = [uuid for each in accepted.values() for uuid in each]
    late = following.follow(conductor, uuids, _TIMEOUT_S, on_end=lambda instance: None)
    found = following.look(conductor, uuids)
    print()
    as_expected = [_tell(order, [found[uuid] for uuid in accepted[order.name]]) for order in BATCH]
    _tell_hosts(conductor, list(found.values()))
    _tell_failures(conductor, list(found.values()))
    return all(as_expected) and not late


def _boot(conductor: Calls, order: Order) -> list[str]:
    group = ""
    if order.policy:
        group = f"{order.name}-group"
        conductor.operator.create_group(name=group, policy=order.policy, max_server_per_host=1)
    request = {"name": order.name, "flavor": order.flavor["name"], "count": order.count, "group": group}
    print(f"  {order.name:6} {order.count} x {order.flavor['name']:7} {order.story}")
    return [each["uuid"] for each in conductor.create(request)["instances"]]


def _tell(order: Order, instances: list[Record]) -> bool:
    hosts = [each["host"] for each in instances if each["vm_state"] == states.ACTIVE]
    landed = ", ".join(sorted(hosts)) or "nowhere"
    right = order.expected(hosts)
    print(f"  {order.name:6} -> {landed}{'' if right else '   NOT AS EXPECTED'}")
    return right


def _tell_hosts(conductor: Calls, instances: list[Record]) -> None:
    names = collections.defaultdict(list)
    for each in instances:
        if each["vm_state"] == states.ACTIVE:
            names[each["host"]].append(each["name"])
    print("\nHost    CPUs   Memory (MB)    Instances")
    for host in pages.hosts(conductor.operator):
        memory = f"{host['memory_mb_used']}/{host['memory_mb']}"
        cpus = f"{host['vcpus_used']}/{host['vcpus']}"
        print(f"{host['host']:7} {cpus:6} {memory:14} {', '.join(sorted(names[host['host']]))}")


def _tell_failures(conductor: Calls, instances: list[Record]) -> None:
    for each in instances:
        if each["vm_state"] == states.ERROR:
            print(f"\nWhy {each['name']} is nowhere:")
            shown = conductor.operator.show_instance(name=each["uuid"])
            for line in (line for fault in shown["faults"] for line in faults.fault_lines(fault)):
                print(f"  {line}")
