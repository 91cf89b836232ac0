# SPDX-License-Identifier: Apache-2.0
"""What must hold whatever happened: read from the ledger, the agents and the drivers' own records."""

from __future__ import annotations

import collections
from typing import Any

from tests.amqp.daemons import Trio

_RESOURCES = ("memory_mb", "local_gb", "vcpus")
_CLAIMED = {"memory_mb": "claimed_memory_mb", "local_gb": "claimed_disk_gb", "vcpus": "claimed_vcpus"}
_AGENT = {"memory_mb": "memory_mb", "local_gb": "disk_gb", "vcpus": "vcpus"}
_RESERVED = {"memory_mb": "reserved_memory_mb", "local_gb": "reserved_disk_gb", "vcpus": "reserved_vcpus"}
_RATIO = {"memory_mb": "ram_allocation_ratio", "local_gb": "disk_allocation_ratio", "vcpus": "cpu_allocation_ratio"}


def violations(trio: Trio) -> list[str]:
    """Everything that is wrong at this moment of rest; empty is good."""
    nodes = trio.operator("list_hosts")
    instances = trio.operator("list_instances")
    return [
        *_usage_is_the_sum(nodes, instances),
        *_nothing_is_overcommitted(nodes),
        *_agents_agree(trio, nodes, instances),
        *_every_error_has_a_fault(trio, instances),
    ]


def _usage_is_the_sum(nodes: list[dict[str, Any]], instances: list[dict[str, Any]]) -> list[str]:
    """Ledger: what a node has used is what it reserves plus what its instances claim."""
    held: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for instance in instances:
        if instance["host"]:
            held[instance["host"], instance["node"]].update({name: instance[_CLAIMED[name]] for name in _RESOURCES})
    wrong = []
    for node in nodes:
        for name in _RESOURCES:
            expected = node[_RESERVED[name]] + held[node["host"], node["node"]][name]
            if node[f"{name}_used"] != expected:
                wrong.append(f"{node['host']}: {name}_used is {node[f'{name}_used']}, its instances say {expected}")
    return wrong


def _nothing_is_overcommitted(nodes: list[dict[str, Any]]) -> list[str]:
    """Claims are at most (total − reserved) × ratio."""
    wrong = []
    for node in nodes:
        for name in ("memory_mb", "local_gb"):
            claims = node[f"{name}_used"] - node[_RESERVED[name]]
            most = (node[name] - node[_RESERVED[name]]) * node[_RATIO[name]]
            if claims > most:
                wrong.append(f"{node['host']}: claims of {name} are {claims}, at most {most} are allowed")
    return wrong


def _agents_agree(trio: Trio, nodes: list[dict[str, Any]], instances: list[dict[str, Any]]) -> list[str]:
    """Each agent holds what the ledger says, and its driver runs just those guests."""
    wrong = []
    for host in sorted({node["host"] for node in nodes}):
        mine = {instance["uuid"] for instance in instances if instance["host"] == host}
        view = trio.describe_host(host)
        for node in view["nodes"]:
            (ledger,) = [each for each in nodes if (each["host"], each["node"]) == (host, node["node"])]
            for name in _RESOURCES:
                if node["used"][_AGENT[name]] != ledger[f"{name}_used"]:
                    used = ledger[f"{name}_used"]
                    wrong.append(f"{host}: the agent counts {node['used'][_AGENT[name]]} of {name}, the ledger {used}")
        if set(view["guests"]) != mine:
            wrong.append(f"{host}: the driver runs {sorted(view['guests'])}, the ledger has {sorted(mine)}")
    return wrong


def _every_error_has_a_fault(trio: Trio, instances: list[dict[str, Any]]) -> list[str]:
    return [
        f"{instance['uuid']} is in ERROR without a fault"
        for instance in instances
        if instance["vm_state"] == "error" and not trio.show(instance["uuid"])["faults"]
    ]
