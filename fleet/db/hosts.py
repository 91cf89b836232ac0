# SPDX-License-Identifier: Apache-2.0
"""Compute node records: inventory as the agents report it, usage as the claims in the ledger add up."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from oslo_utils import uuidutils

from fleet import capacity, states
from fleet.db import hardware, models
from fleet.db.engine import Transaction
from fleet.objects import HostReport

NODES = models.compute_nodes
INSTANCES = models.instances

#: HostReport fields that are columns under another name, or not columns.
_RENAMED = {"node": "hypervisor_hostname"}


def report(tx: Transaction, inventory: HostReport, now: datetime.datetime) -> None:
    """Record a node's inventory; a node seen for the first time (or again) appears. Usage is summed afresh."""
    values = {_RENAMED.get(name, name): value for name, value in vars(inventory).items()}
    values.update(failed_builds=int(inventory.stats.get("failed_builds") or 0), deleted=False, deleted_at=None)
    found = _lock(tx, inventory.host, inventory.node)
    values.update(
        hardware.columns(tx, inventory.host, inventory.node, inventory.numa_topology, inventory.pci_device_pools)
    )
    if found is None:
        tx.insert(NODES, {**values, "uuid": uuidutils.generate_uuid(), "created_at": now})
    else:
        changed = {name: value for name, value in values.items() if getattr(found, name) != value}
        if changed:
            tx.execute(NODES.update().where(NODES.c.id == found.id).values(**changed))
        elif _usage(tx, inventory.host, inventory.node) == _recorded_usage(found):
            return
    refresh_usage(tx, inventory.host, inventory.node, now)


def remove_nodes_except(tx: Transaction, host: str, nodes: Iterable[str], now: datetime.datetime) -> list[str]:
    """Mark the nodes that ``host`` no longer has as deleted; returns their names."""
    gone = tx.execute(
        sa.select(NODES.c.id, NODES.c.hypervisor_hostname).where(
            NODES.c.host == host, sa.not_(NODES.c.deleted), NODES.c.hypervisor_hostname.not_in(list(nodes))
        )
    ).all()
    for node in gone:
        tx.execute(NODES.update().where(NODES.c.id == node.id).values(deleted=True, deleted_at=now))
        tx.touch(NODES, node.id)
    return [node.hypervisor_hostname for node in gone]


def refresh_usage(tx: Transaction, host: str, node: str, now: datetime.datetime) -> None:
    """Set the node's usage to what it reserves plus what the instances on it hold.

    The node's row is locked first, so that of two claims the later one sees the earlier.
    """
    found = _lock(tx, host, node)
    if found is None:
        return
    usage = _usage(tx, host, node)
    vcpus_used = found.reserved_vcpus + usage.vcpus
    memory_mb_used = found.reserved_memory_mb + found.orphaned_memory_mb + usage.memory_mb
    local_gb_used = found.reserved_disk_gb + usage.disk_gb
    tx.execute(
        NODES.update()
        .where(NODES.c.id == found.id)
        .values(
            vcpus_used=vcpus_used,
            memory_mb_used=memory_mb_used,
            free_ram_mb=capacity.free(found.memory_mb, memory_mb_used),
            local_gb_used=local_gb_used,
            free_disk_gb=capacity.free(found.local_gb, local_gb_used),
            running_vms=usage.instances,
            current_workload=usage.building,
            io_workload=usage.building,
            updated_at=now,
            **hardware.columns(tx, host, node, found.numa_topology, found.pci_device_pools),
        )
    )
    tx.touch(NODES, found.id)


def _lock(tx: Transaction, host: str, node: str) -> sa.Row | None:
    query = sa.select(NODES).where(NODES.c.host == host, NODES.c.hypervisor_hostname == node)
    return tx.execute(query.with_for_update()).one_or_none()


def _usage(tx: Transaction, host: str, node: str) -> sa.Row:
    """What instances hold of a node: vcpus, memory_mb, disk_gb, how many there are and how many are being built."""
    return tx.execute(
        sa.select(
            sa.func.coalesce(sa.func.sum(INSTANCES.c.claimed_vcpus), 0).label("vcpus"),
            sa.func.coalesce(sa.func.sum(INSTANCES.c.claimed_memory_mb), 0).label("memory_mb"),
            sa.func.coalesce(sa.func.sum(INSTANCES.c.claimed_disk_gb), 0).label("disk_gb"),
            sa.func.count().label("instances"),
            sa.func.count(sa.case((INSTANCES.c.vm_state == states.BUILDING, 1))).label("building"),
        ).where(INSTANCES.c.host == host, INSTANCES.c.node == node, sa.not_(INSTANCES.c.deleted))
    ).one()


def _recorded_usage(node: sa.Row) -> tuple[int, ...]:
    return (
        node.vcpus_used - node.reserved_vcpus,
        node.memory_mb_used - node.reserved_memory_mb - node.orphaned_memory_mb,
        node.local_gb_used - node.reserved_disk_gb,
        node.running_vms,
        node.io_workload,
    )


def list_all(connection: sa.Connection, host: str | None = None) -> Sequence[sa.Row]:
    query = sa.select(NODES).where(sa.not_(NODES.c.deleted)).order_by(NODES.c.host, NODES.c.hypervisor_hostname)
    return connection.execute(query.where(NODES.c.host == host) if host else query).all()
