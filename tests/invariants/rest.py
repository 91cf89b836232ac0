# SPDX-License-Identifier: Apache-2.0
"""What holds when nothing moves: the ledger, the agents, the drivers and the scheduler's cache are of one mind."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from tests.invariants.ledger import RESOURCES, Ledger, Row

#: What the scheduler is asked to count: memory decides.
PROBE = {"vcpus": 1, "memory_mb": 1024, "root_gb": 0}

Views = Mapping[str, Mapping[str, Any]]
Guests = Mapping[str, Mapping[str, Any]]


def every_build_is_over(ledger: Ledger) -> Iterator[str]:
    """I3: nothing is on its way any more."""
    for row in ledger.unsettled:
        yield f"{row['uuid']} is {row['vm_state']}/{row['task_state']} at attempt {row['attempt']} on {row['host']}"


def guests_are_where_the_ledger_says(ledger: Ledger, guests: Guests) -> Iterator[str]:
    """I2: a guest on the host that its instance is on, and on no other; but one that the row says is gone.

    Hosts have removed the guests of all builds and moves that were given up.
    """
    for row in ledger.live:
        if (host := ledger.host_of_left_guest(row)) is not None:
            yield f"{host}: may still have a guest of {row['uuid']}, which is {row['vm_state']}"
    lost = {row["uuid"] for row in ledger.live if row["task_state"] is None and row["power_state"] == 0}
    for host in sorted({node["host"] for node in ledger.nodes} | set(guests)):
        mine = {row["uuid"] for row in ledger.live if row["host"] == host}
        # The source of a resize keeps its guest, switched off, until it is confirmed.
        mine |= {row["instance_uuid"] for row in ledger.migrations if row["held_host"] == host}
        there = set(guests.get(host, ()))
        for uuid in sorted(there - mine):
            yield f"{host}: the driver runs {uuid}, which the ledger has not there"
        for uuid in sorted(mine - there - lost):
            yield f"{host}: the driver does not run {uuid}, which the ledger has there"


def power_states_agree(ledger: Ledger, guests: Guests) -> Iterator[str]:
    """I12: the row of an instance that nothing is done with shows its guest's power state, as the driver has it."""
    for row in ledger.live:
        if (
            row["host"] is None
            or row["task_state"] is not None
            or row["vm_state"] not in ("active", "stopped", "suspended", "resized", "error")
        ):
            continue
        guest = guests.get(row["host"], {}).get(row["uuid"])
        found = guest["power_state"] if guest else 0
        if row["power_state"] != found:
            yield f"{row['uuid']} on {row['host']}: power state {row['power_state']} in its row, {found} by the driver"


def agents_agree(ledger: Ledger, views: Views, guests: Guests) -> Iterator[str]:
    """I5: each agent counts what the ledger counts, and its driver's list is what the driver has on record."""
    for node in ledger.nodes:
        view = views.get(node["host"])
        if view is None:
            yield f"{node['host']}: its agent does not answer"
            continue
        counted = [each for each in view["nodes"] if each["node"] == node["hypervisor_hostname"]]
        if len(counted) != 1:
            yield f"{node['host']}: its agent does not know the node {node['hypervisor_hostname']}"
            continue
        for resource, (_total, used, *_rest) in RESOURCES.items():
            held = counted[0]["used"][resource]
            if held != node[used]:
                yield f"{node['host']}: the agent counts {held} of {resource}, the ledger {node[used]}"
        if set(view["guests"]) != set(guests.get(node["host"], ())):
            yield f"{node['host']}: the agent lists other guests than its driver has on record"


def the_scheduler_agrees(ledger: Ledger, answer: Mapping[str, Any]) -> Iterator[str]:
    """I5: how many more of ``PROBE`` the scheduler sees room for is what the ledger's arithmetic says."""
    expected = sum(_fits(node) for node in ledger.nodes)
    if answer["fits"] != expected:
        yield f"the scheduler sees room for {answer['fits']} more instances, the ledger for {expected}"


def nothing_is_used(ledger: Ledger, views: Views, guests: Guests) -> Iterator[str]:
    """I4: after everything was deleted no host holds anything, by any account."""
    for row in ledger.live:
        yield f"{row['uuid']} is not deleted: {row['vm_state']}/{row['task_state']} on {row['host']}"
    for node in ledger.nodes:
        for resource, (_total, used, reserved, *_rest) in RESOURCES.items():
            if node[used] != node[reserved]:
                yield f"{node['host']}: {node[used] - node[reserved]} of {resource} is still used"
    for row in ledger.addresses:
        yield f"{row['instance_uuid']} still has an address: {row['number']}"
    for host, view in views.items():
        for node in view["nodes"]:
            if node["instances"]:
                yield f"{host}: the agent still holds {node['instances']}"
    for host, there in guests.items():
        if there:
            yield f"{host}: the driver still runs {sorted(there)}"


def _fits(node: Row) -> int:
    total, used, reserved, ratio, _claimed = RESOURCES["memory_mb"]
    most = (node[total] - node[reserved]) * node[ratio] - (node[used] - node[reserved])
    return max(0, math.floor(most / PROBE["memory_mb"]))
