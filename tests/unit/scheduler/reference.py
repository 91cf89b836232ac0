# SPDX-License-Identifier: Apache-2.0
"""The obvious scheduler: one host at a time, one instance at a time, slow and simple. The real one must agree.

``reference_filters`` and ``reference_weighers`` say what each filter and weigher means, by its class name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fleet.objects import RequestSpec
from tests.unit.scheduler import reference_filters, reference_hardware, reference_weighers
from tests.unit.scheduler.reference_filters import Check, Context, Host
from tests.unit.scheduler.reference_weighers import Weigher

#: What runs unless a test says otherwise.
CHECKS: tuple[Check, ...] = tuple(
    reference_filters.CHECKS[name]
    for name in (
        "RetryFilter",
        "RamFilter",
        "CoreFilter",
        "DiskFilter",
        "ServerGroupAntiAffinityFilter",
        "ServerGroupAffinityFilter",
    )
)
_REVIVING = {reference_filters.failure_domain}
_ONCE = {reference_filters.CHECKS[name] for name in reference_filters.ONCE}
WEIGHERS: tuple[Weigher, ...] = tuple(
    reference_weighers.WEIGHERS[name]() for name in ("RAMWeigher", "DiskWeigher", "CPUWeigher", "IoOpsWeigher")
)


@dataclasses.dataclass
class Choice:
    """The host, weight and alternates of each instance; fewer hosts than requested if it failed."""

    hosts: list[str]
    weights: list[float]
    alternates: list[list[str]]


def select(
    hosts: Sequence[Host], request: RequestSpec, alternates: int, placed: dict[str, str]
) -> tuple[list[str], list[list[str]]]:
    """The host of each instance as far as there are any, and the alternates of each, by the default checks."""
    choice = choose(hosts, request, alternates, Context(placed=placed), CHECKS, WEIGHERS)
    return choice.hosts, choice.alternates


def choose(
    hosts: Sequence[Host],
    request: RequestSpec,
    alternates: int,
    world: Context,
    checks: Sequence[Check],
    weighers: Sequence[Weigher],
) -> Choice:
    world.nodes = hosts
    considered, passing = list(hosts), {host.host for host in hosts}
    weights: list[float] = []
    following: list[str] = []
    for number in range(request.num_instances):
        considered, left = _filtered(considered, passing if number else set(), request, world, checks)
        passing = {host.host for host in left}
        if not left:
            return Choice(world.picked, weights, [])
        ranked = _ranked(left, request, world, weighers)
        best = ranked[0][1]
        weights.append(ranked[0][0])
        following = [host.host for _weight, host in ranked[1:]]
        world.picked.append(best.host)
        considered = [_consume(host, request, world) if host is best else host for host in considered]
    if request.num_instances > 1:
        _considered, left = _filtered(considered, passing, request, world, checks)
        ranked = _ranked(left, request, world, weighers)
        following = [host.host for _weight, host in ranked if host.host not in world.picked]
    return Choice(world.picked, weights, [following[:alternates]] * request.num_instances)


def _filtered(
    hosts: Sequence[Host], passing: set[str], request: RequestSpec, world: Context, checks: Sequence[Check]
) -> tuple[list[Host], list[Host]]:
    """The hosts that may still be chosen some time, and those that may be now.

    :param passing: names of hosts that passed for the instance before: some checks are not made again
    """
    considered, left = [], []
    for host in hosts:
        asked = [check for check in checks if host.host not in passing or check not in _ONCE]
        failed = next((check for check in asked if not check(host, request, world)), None)
        if failed is None or failed in _REVIVING:
            considered.append(host)
        if failed is None:
            left.append(host)
    return considered, left


def _ranked(
    hosts: Sequence[Host], request: RequestSpec, world: Context, weighers: Sequence[Weigher]
) -> list[tuple[float, Host]]:
    """Weight and host, best first, equal ones in their order."""
    scores = [0.0] * len(hosts)
    if len(hosts) > 1:
        for weigher in weighers:
            for number, part in enumerate(weigher.contributions(hosts, request, world)):
                scores[number] += part
    return sorted(zip(scores, hosts, strict=True), key=lambda pair: -pair[0])


def _consume(host: Host, request: RequestSpec, world: Context) -> Host:
    host, missing = reference_hardware.consumed(host, request)
    world.missing_devices[host.host] += missing
    return dataclasses.replace(
        host,
        free_ram_mb=host.free_ram_mb - request.memory_mb,
        free_disk_gb=host.free_disk_gb - request.root_gb - request.ephemeral_gb,
        vcpus_used=host.vcpus_used + request.vcpus,
        io_workload=host.io_workload + 1,
        running_vms=host.running_vms + 1,
    )
