# SPDX-License-Identifier: Apache-2.0
"""What must hold: at every moment, and at the end when everything has healed."""

from __future__ import annotations

import collections
import ipaddress
from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa

from compute_agent.node.host import Host
from fleet import move_states, states
from fleet.db.instances import history
from fleet.db.tables import models
from fleet.objects import instance_group
from tests.simulation.database import SimulatedDatabase
from tests.simulation.processes import LIMITS, MEMORY_MB, Hypervisor

INSTANCES = models.instances
MIGRATIONS = models.migrations
NODES = models.compute_nodes
MEMBERS = models.instance_group_members

_SOLD = sa.select(NODES.c.host, NODES.c.memory_mb_used)
_ATTEMPTS = sa.select(INSTANCES.c.uuid, (INSTANCES.c.attempt - INSTANCES.c.earlier_attempts).label("attempt"))
_INSTANCES, _NODES, _MIGRATIONS = (sa.select(table) for table in (INSTANCES, NODES, MIGRATIONS))
_REQUESTS = sa.select(models.build_requests.c.spec)
_ADDRESSES = sa.select(models.addresses.c["instance_uuid", "number"])
_SHOWN = sa.select(INSTANCES.c["uuid", "deleted", "vm_state", "host", "step_deadline", "interfaces"])
_FAULTY = sa.select(history.FAULTS.c.instance_uuid)
_MEMBERS = (
    sa.select(models.instance_groups.c["uuid", "policy"], INSTANCES.c["host", "deleted"], MEMBERS.c.instance_uuid)
    .join(MEMBERS, MEMBERS.c.group_uuid == models.instance_groups.c.uuid)
    .join(INSTANCES, INSTANCES.c.uuid == MEMBERS.c.instance_uuid)
)


def at_any_moment(database: SimulatedDatabase, hypervisors: Mapping[str, Hypervisor]) -> list[str]:
    """No host overcommitted, no spawn repeated, no attempt too many."""
    nodes, attempts = database.rows(_SOLD), database.rows(_ATTEMPTS)
    wrong = [f"I1: {node.host} has sold {node.memory_mb_used} MB" for node in nodes if node.memory_mb_used > MEMORY_MB]
    wrong += [f"I6: {row.uuid} is at attempt {row.attempt}" for row in attempts if row.attempt > LIMITS.max_attempts]
    for host, hypervisor in hypervisors.items():
        wrong += [f"I6: {host} spawned {what} {times} times" for what, times in hypervisor.spawned.items() if times > 1]
    return wrong


class Addresses:
    """I17: an instance has the addresses that it has claimed, as long as it lives the same, and afterwards none."""

    def __init__(self) -> None:
        self._first: dict[str, list[str]] = {}

    def wrong(self, database: SimulatedDatabase) -> list[str]:
        """Look at them, and remember them for the next look."""
        claimed = collections.defaultdict(set)
        for row in database.rows(_ADDRESSES):
            claimed[row.instance_uuid].add(str(ipaddress.IPv4Address(row.number)))
        wrong = []
        for row in database.rows(_SHOWN):
            shown = [plug["address"] for plug in row.interfaces or ()]
            # One with a deadline keeps them until its last host has removed the guest.
            over = row.deleted or (row.vm_state == states.ERROR and row.host is None and row.step_deadline is None)
            if set(shown) != claimed.pop(row.uuid, set()):
                wrong.append(f"I17: {row.uuid} shows {shown}, which it has not claimed, or not all that it has")
            if shown != ([] if over else self._first.setdefault(row.uuid, shown)):
                wrong.append(f"I17: {row.uuid} is {row.vm_state} and has {shown}, at first {self._first.get(row.uuid)}")
        return wrong + [f"I17: {uuid} has addresses and is not there" for uuid in sorted(claimed)]


def at_the_end(
    database: SimulatedDatabase, hypervisors: Mapping[str, Hypervisor], hosts: Mapping[str, Host], requests: int
) -> list[str]:
    """Every build over, every fault there, and the ledger, the agents and the hypervisors of one mind."""
    rows, nodes, records, groups = map(database.rows, (_INSTANCES, _NODES, _MIGRATIONS, _MEMBERS))
    accepted = database.rows(_REQUESTS)
    faulty = {row.instance_uuid for row in database.rows(_FAULTY)}
    live = [row for row in rows if not row.deleted]
    asked = sum(request.spec["count"] for request in accepted)
    wrong = [f"I3: {row.uuid} is {row.vm_state}/{row.task_state}" for row in live if not _over(row)]
    if len(accepted) > requests or len(rows) != asked:
        wrong.append(f"I6: {requests} requests became {len(accepted)}, {asked} instances {len(rows)}")
    wrong += [f"I3: {row.uuid} has no fault" for row in live if row.vm_state == states.ERROR and row.uuid not in faulty]
    for node in nodes:
        here = [row for row in live if row.host == node.host]
        moving = [record for record in records if record.held_host == node.host]
        wrong += _agree(node, here, moving, hypervisors[node.host], hosts[node.host])
    wrong += [f"I3: {each.uuid} is {each.status}" for each in records if each.status in move_states.UNDER_WAY]
    left = collections.defaultdict(set)
    for each in records:
        if each.migration_type == move_states.EVACUATION:
            left[each.instance_uuid].add(each.source_compute)
    return wrong + _policies(groups, left)


#: State, task and power state of an instance in ERROR without a guest.
_GONE = (states.ERROR, None, states.NOSTATE)


def _over(row: sa.Row) -> bool:
    return row.vm_state in (*states.WATCHED, states.SHELVED_OFFLOADED) and row.task_state is None


def _agree(
    node: sa.Row, here: Sequence[sa.Row], moving: Sequence[sa.Row], hypervisor: Hypervisor, host: Host
) -> list[str]:
    sold = sum(row.claimed_memory_mb for row in [*here, *moving])
    held = host.tracker(node.host).view()
    living = {row.uuid for row in here}
    mine = living | {record.instance_uuid for record in moving}
    # The hypervisor could not make the guest of a rebuild. The row records that, and keeps its claim on the host.
    gone = {row.uuid for row in here if (row.vm_state, row.task_state, row.power_state) == _GONE}
    wrong = []
    if node.memory_mb_used != sold:
        wrong.append(f"I5: {node.host} used {node.memory_mb_used}, its instances claim {sold}")
    if held.used.memory_mb != sold or held.instances != mine:
        wrong.append(f"I5: the agent of {node.host} holds {sorted(held.instances)}, the ledger {sorted(mine)}")
    if set(hypervisor.guests) != mine - gone:
        wrong.append(f"I2: {node.host} runs {sorted(hypervisor.guests)}, the ledger has {sorted(mine - gone)}")
    running = {uuid for uuid, guest in hypervisor.guests.items() if not guest.get("switched_off")}
    off = {row.uuid for row in here if row.power_state == states.SHUTDOWN}
    if running - off != living - off - gone:
        wrong.append(f"I2: on {node.host} {sorted(running)} are on, the ledger has {sorted(living)} living there")
    for row in (each for each in here if each.uuid not in gone):
        shown = [plug["address"] for plug in row.interfaces or ()]
        if (found := hypervisor.guests.get(row.uuid, {}).get("addresses")) != shown:
            wrong.append(f"I17: {row.uuid} on {node.host} has {shown}, its guest {found}")
    watched = [row for row in here if row.task_state is None and row.vm_state in states.WATCHED]
    for row in watched:
        found = hypervisor.power_state(row.uuid)
        if row.power_state != found:
            wrong.append(f"I12: {row.uuid} on {node.host} has power state {row.power_state}, its guest {found}")
    return wrong


def _policies(rows: Sequence[sa.Row], left: Mapping[str, Collection[str]]) -> list[str]:
    """Affinity groups are on one host, and members of anti-affinity groups on different ones.

    A group leaves its dead host one by one, and members may join either part. So it may be on two hosts although the
    member that was evacuated has been deleted since.

    :param left: hosts that instances were evacuated from
    """
    hosts, evacuated = collections.defaultdict(list), collections.defaultdict(set)
    for row in rows:
        if row.host is not None and not row.deleted:
            hosts[row.uuid, row.policy].append(row.host)
        evacuated[row.uuid, row.policy].update(left.get(row.instance_uuid, ()))
    apart = [
        key for key, used in hosts.items() if key[1] == instance_group.ANTI_AFFINITY and len(set(used)) < len(used)
    ]
    together = [
        key for key, used in hosts.items() if key[1] == instance_group.AFFINITY and len(set(used) - evacuated[key]) > 1
    ]
    return [f"I8: group {uuid} breaks {policy}: {hosts[uuid, policy]}" for uuid, policy in apart + together]
