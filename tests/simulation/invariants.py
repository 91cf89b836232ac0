# SPDX-License-Identifier: Apache-2.0
"""What must hold: at every moment, and at the end when everything has healed."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from compute_agent.host import Host
from fleet import states
from fleet.db import history, models
from fleet.db.engine import Database
from fleet.objects import instance_group
from tests.simulation.processes import LIMITS, MEMORY_MB, Hypervisor

INSTANCES = models.instances
NODES = models.compute_nodes


def at_any_moment(database: Database, hypervisors: Mapping[str, Hypervisor]) -> list[str]:
    """No host overcommitted, no spawn repeated, no attempt too many."""
    with database.engine.connect() as connection:
        nodes = connection.execute(sa.select(NODES.c.host, NODES.c.memory_mb_used)).all()
        attempts = connection.execute(sa.select(INSTANCES.c.uuid, INSTANCES.c.attempt)).all()
    wrong = [f"I1: {node.host} has sold {node.memory_mb_used} MB" for node in nodes if node.memory_mb_used > MEMORY_MB]
    wrong += [f"I6: {row.uuid} is at attempt {row.attempt}" for row in attempts if row.attempt > LIMITS.max_attempts]
    for host, hypervisor in hypervisors.items():
        wrong += [f"I6: {host} spawned {what} {times} times" for what, times in hypervisor.spawned.items() if times > 1]
    return wrong


def at_the_end(database: Database, hypervisors: Mapping[str, Hypervisor], hosts: Mapping[str, Host]) -> list[str]:
    """Every build over, every fault there, and the ledger, the agents and the hypervisors of one mind."""
    with database.engine.connect() as connection:
        rows = connection.execute(sa.select(INSTANCES)).all()
        nodes = connection.execute(sa.select(NODES)).all()
        faulty = set(connection.execute(sa.select(history.FAULTS.c.instance_uuid)).scalars())
        groups = connection.execute(_members()).all()
    live = [row for row in rows if not row.deleted]
    wrong = [f"I3: {row.uuid} is {row.vm_state}/{row.task_state}" for row in live if not _over(row)]
    wrong += [f"I3: {row.uuid} has no fault" for row in live if row.vm_state == states.ERROR and row.uuid not in faulty]
    for node in nodes:
        here = [row for row in live if row.host == node.host]
        wrong += _agree(node, here, hypervisors[node.host], hosts[node.host])
    return wrong + _policies(groups)


def _over(row: sa.Row) -> bool:
    return row.vm_state in (states.ACTIVE, states.ERROR) and row.task_state is None


def _agree(node: sa.Row, here: Sequence[sa.Row], hypervisor: Hypervisor, host: Host) -> list[str]:
    sold = sum(row.claimed_memory_mb for row in here)
    held = host.tracker(node.host).view()
    mine = {row.uuid for row in here}
    wrong = []
    if node.memory_mb_used != sold:
        wrong.append(f"I5: {node.host} used {node.memory_mb_used}, its instances claim {sold}")
    if held.used.memory_mb != sold or held.instances != mine:
        wrong.append(f"I5: the agent of {node.host} holds {sorted(held.instances)}, the ledger {sorted(mine)}")
    if set(hypervisor.guests) != mine:
        wrong.append(f"I2: {node.host} runs {sorted(hypervisor.guests)}, the ledger has {sorted(mine)}")
    return wrong


def _members() -> sa.Select:
    groups, members = models.instance_groups, models.instance_group_members
    return (
        sa.select(groups.c.uuid, groups.c.policy, INSTANCES.c.host)
        .join(members, members.c.group_uuid == groups.c.uuid)
        .join(INSTANCES, INSTANCES.c.uuid == members.c.instance_uuid)
        .where(INSTANCES.c.host.is_not(None), sa.not_(INSTANCES.c.deleted))
    )


def _policies(rows: Sequence[sa.Row]) -> list[str]:
    hosts = collections.defaultdict(list)
    for row in rows:
        hosts[row.uuid, row.policy].append(row.host)
    apart = [
        key for key, used in hosts.items() if key[1] == instance_group.ANTI_AFFINITY and len(set(used)) < len(used)
    ]
    together = [key for key, used in hosts.items() if key[1] == instance_group.AFFINITY and len(set(used)) > 1]
    return [f"I8: group {uuid} breaks {policy}: {hosts[uuid, policy]}" for uuid, policy in apart + together]
