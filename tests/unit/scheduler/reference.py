# SPDX-License-Identifier: Apache-2.0
"""The obvious scheduler: one host at a time, one instance at a time, slow and simple. The real one must agree."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from fleet.objects import RequestSpec
from tests.factories import Node

Host = Node
Check = Callable[[Host, RequestSpec, "Picks"], bool]
Weigh = Callable[[Host], float]


@dataclasses.dataclass
class Picks:
    """Hosts chosen so far in this request, and where other members of its group are."""

    hosts: list[str] = dataclasses.field(default_factory=list)
    placed: dict[str, str] = dataclasses.field(default_factory=dict)


def ram(host: Host, request: RequestSpec, picks: Picks) -> bool:
    asked = request.flavor.memory_mb
    if host.memory_mb - host.reserved_memory_mb < asked:
        return False
    limit = (host.memory_mb - host.reserved_memory_mb) * host.ram_allocation_ratio + host.reserved_memory_mb
    return limit - (host.memory_mb - host.free_ram_mb) >= asked


def core(host: Host, request: RequestSpec, picks: Picks) -> bool:
    asked = request.flavor.vcpus
    if host.vcpus == 0:
        return True
    if host.vcpus - host.reserved_vcpus < asked:
        return False
    limit = (host.vcpus - host.reserved_vcpus) * host.cpu_allocation_ratio + host.reserved_vcpus
    return limit - host.vcpus_used >= asked


def disk(host: Host, request: RequestSpec, picks: Picks) -> bool:
    asked = 1024 * (request.flavor.root_gb + request.flavor.ephemeral_gb) + request.flavor.swap
    total = host.local_gb * 1024
    reserved = host.reserved_disk_gb * 1024
    if total - reserved < asked:
        return False
    limit = (total - reserved) * host.disk_allocation_ratio + reserved
    return limit - (total - host.free_disk_gb * 1024) >= asked


def retry(host: Host, request: RequestSpec, picks: Picks) -> bool:
    return request.retry is None or (host.host, host.hypervisor_hostname) not in request.retry.hosts


def anti_affinity(host: Host, request: RequestSpec, picks: Picks) -> bool:
    if "anti-affinity" not in request.group_policies:
        return True
    if not request.group_members:
        return host.host not in {*request.group_hosts, *picks.hosts}
    others = request.group_members - set(request.instance_uuids)
    there = [picks.placed[uuid] for uuid in others if uuid in picks.placed] + picks.hosts
    return there.count(host.host) < request.group_max_server_per_host


def affinity(host: Host, request: RequestSpec, picks: Picks) -> bool:
    if "affinity" not in request.group_policies:
        return True
    others = request.group_members - set(request.instance_uuids)
    hosts = {*request.group_hosts, *picks.hosts, *(picks.placed[uuid] for uuid in others if uuid in picks.placed)}
    return not hosts or host.host in hosts


CHECKS: tuple[Check, ...] = (retry, ram, core, disk, anti_affinity, affinity)


def _cpu_weight(host: Host) -> float:
    limit = (host.vcpus - host.reserved_vcpus) * host.cpu_allocation_ratio + host.reserved_vcpus
    return limit - host.vcpus_used


#: Raw weight and multiplier, in the order of ``scheduler.weights.CLASSES``.
WEIGHERS: tuple[tuple[Weigh, float], ...] = (
    (lambda host: host.free_ram_mb, 1.0),
    (lambda host: host.free_disk_gb * 1024, 1.0),
    (_cpu_weight, 1.0),
    (lambda host: host.io_workload, -1.0),
)


def _scores(hosts: Sequence[Host]) -> list[float]:
    scores = [0.0] * len(hosts)
    if len(hosts) <= 1:
        return scores
    for weigh, multiplier in WEIGHERS:
        raw = [max(float(weigh(host)), 0.0) for host in hosts]
        high = max(raw)
        for number, weight in enumerate(raw):
            scores[number] += multiplier * ((weight - 0.0) / (high - 0.0) if high else 0.0)
    return scores


def _consume(host: Host, request: RequestSpec) -> Host:
    return dataclasses.replace(
        host,
        free_ram_mb=host.free_ram_mb - request.memory_mb,
        free_disk_gb=host.free_disk_gb - request.root_gb - request.ephemeral_gb,
        vcpus_used=host.vcpus_used + request.vcpus,
        io_workload=host.io_workload + 1,
        running_vms=host.running_vms + 1,
    )


def _ranked(hosts: Sequence[Host], request: RequestSpec, picks: Picks) -> tuple[list[Host], list[Host]]:
    """Hosts that pass, in their order and best first."""
    passed = [host for host in hosts if all(check(host, request, picks) for check in CHECKS)]
    scores = _scores(passed)
    order = sorted(range(len(passed)), key=lambda number: -scores[number])
    return passed, [passed[number] for number in order]


def select(
    hosts: Sequence[Host], request: RequestSpec, alternates: int, placed: dict[str, str]
) -> tuple[list[str], list[list[str]]]:
    """The host of each instance as far as there are any, and the alternates of each."""
    picks = Picks(placed=placed)
    left = list(hosts)
    following: list[str] = []
    for _number in range(request.num_instances):
        left, ranked = _ranked(left, request, picks)
        if not ranked:
            return picks.hosts, []
        best = ranked[0]
        following = [host.host for host in ranked[1:]]
        picks.hosts.append(best.host)
        left = [_consume(host, request) if host is best else host for host in left]
    if request.num_instances > 1:
        following = [host.host for host in _ranked(left, request, picks)[1] if host.host not in picks.hosts]
    return picks.hosts, [following[:alternates]] * request.num_instances
