# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI devices of a node, with what instances and moves hold of them.

:mod:`fleet.db.hosts.hosts` writes it with each change of a node.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

import sqlalchemy as sa

from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.db.tables.sql_types import Columns, Select
from fleet.hardware import pools, usage
from fleet.json_codec import JSONList, JSONObject
from fleet.objects import numa, pci

INSTANCES = models.instances
MIGRATIONS = models.migrations


class _Held(Protocol):
    claimed_numa_topology: JSONObject | None
    claimed_pci_devices: JSONList | None


def columns(
    tx: Transaction | sa.Connection, host: str, node: str, numa_topology: object, pci_device_pools: object
) -> Columns:
    """Columns of the node: its cells with their usage, all its device pools, and (``pci_stats``) the free devices.

    :param numa_topology: its cells; their usage is ignored
    """
    topology = numa.HostTopology.from_wire(numa_topology)
    free = pools.ordered(pci.pools_from_wire(pci_device_pools, "pci_device_pools"))
    all_pools = [pool.to_wire() for pool in free]
    # Most nodes have neither, and need no query.
    held = _held(tx, host, node) if topology or free else []
    if topology is not None:
        instances = [numa.InstanceTopology.from_wire(row.claimed_numa_topology) for row in held]
        topology = usage.recount(topology, [each for each in instances if each is not None])
    devices = [device for row in held for device in pci.devices_from_wire(row.claimed_pci_devices)]
    free = pools.less(free, [device.kind for device in devices])
    return {
        "numa_topology": topology and topology.to_wire(),
        "pci_device_pools": all_pools,
        "pci_stats": [pool.to_wire() for pool in free],
    }


def _held(tx: Transaction | sa.Connection, host: str, node: str) -> list[_Held]:
    here = (INSTANCES.c.host == host, INSTANCES.c.node == node, sa.not_(INSTANCES.c.deleted))
    moving = (MIGRATIONS.c.held_host == host, MIGRATIONS.c.held_node == node)
    both = _holding(INSTANCES, *here).union_all(_holding(MIGRATIONS, *moving))
    # Devices are taken from pools in this order.
    return cast("list[_Held]", list(tx.execute(both.order_by("holder"))))


def _holding(table: sa.Table, *where: Any) -> Select:
    topology, devices = table.c.claimed_numa_topology, table.c.claimed_pci_devices
    return sa.select(table.c.uuid.label("holder"), topology, devices).where(
        *where, sa.or_(topology.is_not(None), devices.is_not(None))
    )
