# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI devices of a node, with what instances and moves hold of them.

:mod:`fleet.db.hosts.hosts` writes it with each change of a node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, cast

import sqlalchemy as sa
from oslo_log import log as logging

from fleet import errors, stored_json
from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.db.tables.sql_types import Column, Columns, Select
from fleet.hardware import pools, usage
from fleet.json_codec import JSONList, JSONObject
from fleet.objects import numa, pci
from fleet.telemetry import rate_limited_log

LOG = logging.getLogger(__name__)

INSTANCES = models.instances
MIGRATIONS = models.migrations


Parsed = TypeVar("Parsed")
_said = rate_limited_log.RateLimit()


class _Held(Protocol):
    instance: str
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
        cells = _known(held, "claimed_numa_topology", numa.InstanceTopology.from_wire)
        topology = usage.full(topology) if cells is None else usage.recount(topology, [each for each in cells if each])
    devices = _known(held, "claimed_pci_devices", pci.devices_from_wire) if free else []
    free = () if devices is None else pools.less(free, [device.kind for each in devices for device in each])
    return {
        "numa_topology": topology and topology.to_wire(),
        "pci_device_pools": all_pools,
        "pci_stats": [pool.to_wire() for pool in free],
    }


def _known(held: Sequence[_Held], column: str, parse: Callable[[object, str], Parsed]) -> list[Parsed] | None:
    """Return what the rows hold. None if one of them cannot be read: anything on the node may be what it holds."""
    found = []
    for row in held:
        value = getattr(row, column)
        try:
            if stored_json.is_unreadable(value):
                raise errors.InvalidInput(field=column, reason="cannot be read")
            found.append(parse(value, column))
        except errors.InvalidInput as malformed:
            if _said.due(f"{row.instance} {column}") is not None:
                LOG.error(
                    "The claim of instance %s is unknown (%s): nothing of this kind counts as free on its node until the "
                    "instance is deleted",
                    *(row.instance, malformed.message),
                )
            return None
    return found


def _held(tx: Transaction | sa.Connection, host: str, node: str) -> list[_Held]:
    here = (INSTANCES.c.host == host, INSTANCES.c.node == node, sa.not_(INSTANCES.c.deleted))
    moving = (MIGRATIONS.c.held_host == host, MIGRATIONS.c.held_node == node)
    both = _holding(INSTANCES, INSTANCES.c.uuid, *here).union_all(
        _holding(MIGRATIONS, MIGRATIONS.c.instance_uuid, *moving)
    )
    # Devices are taken from pools in this order.
    return cast("list[_Held]", list(tx.execute(both.order_by("holder"))))


def _holding(table: sa.Table, instance: Column, *where: Any) -> Select:
    topology, devices = table.c.claimed_numa_topology, table.c.claimed_pci_devices
    return sa.select(table.c.uuid.label("holder"), instance.label("instance"), topology, devices).where(
        *where, sa.or_(topology.is_not(None), devices.is_not(None))
    )
