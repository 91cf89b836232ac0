# SPDX-License-Identifier: Apache-2.0
"""The cache key of a request: equal for requests that no filter or weigher over columns can tell apart.

Called by the domain of virtual machines for each request, and by proofs that group requests of one shape.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from fleet.objects import RequestSpec, group_rule
from scheduler.compute.domain.hardware import wanted


def request_key(request: RequestSpec) -> Hashable | None:
    """Return the parts of the request that a cacheable plugin may read, as one value; None if it must not be cached.

    The parts are the flavor with its extra specs, the amounts that an instance takes, the image and its properties, project
    and user, availability zone, NUMA topology, PCI requests, bridges, rules that name hosts, and the processor of a guest
    that moves while it runs. The hosts that the request names or leaves out are no part of it. A request with hints, a
    group or failed attempts has no key: its answer depends on other instances, or it is rare.
    """
    retried = request.retry is not None and request.retry.hosts
    grouped = request.group_policies or request.group_hosts or request.group_members
    if retried or request.scheduler_hints or grouped:
        return None
    rules = request.group_rules
    if rules and any(rule.policy not in group_rule.OF_HOSTS for rule in rules):
        return None
    flavor, image, instance, parts = request.flavor, request.image, request.instance, wanted(request)
    cpu = request.guest_cpu
    return (
        (flavor.id, flavor.name, flavor.flavorid, flavor.vcpus, flavor.memory_mb),
        (flavor.root_gb, flavor.ephemeral_gb, flavor.swap),
        (request.vcpus, request.memory_mb, request.root_gb, request.ephemeral_gb),
        frozenset(flavor.extra_specs.items()) if flavor.extra_specs else None,
        (image.id, _typed(image.properties) if image.properties else None),
        (instance.image_ref, instance.project_id, instance.user_id, instance.availability_zone),
        parts.key() if parts else None,
        frozenset(instance.bridges) if instance.bridges else None,
        frozenset(rules) if rules else None,
        (cpu.vendor, frozenset(cpu.features)) if cpu is not None else None,
    )


def _typed(properties: Mapping[str, object]) -> frozenset[tuple[str, str, str]]:
    """Return an image's properties with their types: a filter may tell the text "False" from False."""
    return frozenset((name, type(value).__name__, str(value)) for name, value in properties.items())
