# SPDX-License-Identifier: Apache-2.0
"""Compute node records: the inventory that agents report, and the usage, which is the sum of the claims in the ledger.

Conductors read and write them.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import cast

import sqlalchemy as sa
from oslo_utils import uuidutils

from fleet import capacity, errors, json_codec
from fleet.db.engine.database import Transaction
from fleet.db.hosts import guest_loads, hardware, usage
from fleet.db.tables import models
from fleet.db.tables.hosts import NodeRow
from fleet.db.tables.sql_types import Columns, Values
from fleet.objects import HostLimits, HostReport, Inventory, fields, host_report

NODES = models.compute_nodes

#: Fields of HostReport whose column has another name.
_RENAMED = {"node": "hypervisor_hostname"}
_LOCKED = (
    sa.select(NODES)
    .where(NODES.c.host == sa.bindparam("on_host"), NODES.c.hypervisor_hostname == sa.bindparam("on_node"))
    .with_for_update()
)
_ALL_LOCKED = (
    sa.select(NODES)
    .where(
        NODES.c.host.in_(sa.bindparam("hosts", expanding=True)),
        NODES.c.hypervisor_hostname.in_(sa.bindparam("nodes", expanding=True)),
    )
    .order_by(NODES.c.host, NODES.c.hypervisor_hostname)
    .with_for_update()
)
_OTHERS = (
    sa.select(NODES.c.id, NODES.c.hypervisor_hostname)
    .where(
        NODES.c.host == sa.bindparam("on_host"),
        sa.not_(NODES.c.deleted),
        NODES.c.hypervisor_hostname.not_in(sa.bindparam("nodes", expanding=True)),
    )
    .order_by(NODES.c.id)
)


_STATS = sa.select(NODES.c.stats).where(
    NODES.c.host == sa.bindparam("on_host"), NODES.c.hypervisor_hostname == sa.bindparam("on_node")
)


def report(tx: Transaction, inventory: HostReport, now: datetime.datetime) -> None:
    """Store the inventory of a node, and sum its usage again. A new or deleted node appears."""
    host, node = inventory.host, inventory.node
    values = {_RENAMED.get(name, name): value for name, value in vars(inventory).items() if name != "guest_loads"}
    failed = inventory.failed_builds
    values.update(failed_builds=failed, deleted=False, deleted_at=None)
    found = _lock(tx, host, node)
    if inventory.guest_loads:
        guest_loads.keep(tx, host, node, inventory.guest_loads, now)
    counted = usage.of_node(tx, host, node)
    values.update(hardware.columns(tx, host, node, inventory.numa_topology, inventory.pci_device_pools))
    values.update(_used(inventory, counted), stats={**inventory.stats, **counted.stats, "failed_builds": failed})
    if found is None:
        new = {**values, "uuid": uuidutils.generate_uuid(), "created_at": now, "updated_at": now}
        tx.touch(NODES, tx.insert(NODES, new))
        return
    changed = {name: value for name, value in values.items() if getattr(found, name) != value}
    if changed:
        tx.update(NODES, found.id, {"updated_at": now, **changed})
        tx.touch(NODES, found.id)


def remove_nodes_except(tx: Transaction, host: str, nodes: Iterable[str], now: datetime.datetime) -> list[str]:
    """Mark the nodes that ``host`` no longer reports as deleted; return their names."""
    gone = tx.execute(_OTHERS, {"on_host": host, "nodes": list(nodes)}).all()
    for node in gone:
        tx.update(NODES, node.id, {"deleted": True, "deleted_at": now})
        tx.touch(NODES, node.id)
    return [node.hypervisor_hostname for node in gone]


@dataclasses.dataclass(frozen=True)
class UsageChange:
    """Columns of a node that change together with its usage.

    :param built: True after a successful build, which resets the number of failed ones; False after a failed build
    :param limits: of the new claims: ceilings that the usage must keep, these claims included
    """

    built: bool | None = None
    limits: Sequence[HostLimits] = ()


def refresh_usage(
    tx: Transaction,
    host: str,
    node: str,
    now: datetime.datetime,
    built: bool | None = None,
    limits: HostLimits | None = None,
) -> None:
    """Set the usage of a node: what it reserves, plus what instances and moves hold of it.

    The row of the node is locked first, so that the later of two claims sees the earlier one.

    :param built: see :class:`UsageChange`
    :param limits: of one claim
    :raises errors.ComputeResourcesUnavailable: the usage exceeds them
    """
    _refresh_one(tx, host, node, UsageChange(built, () if limits is None else (limits,)), now)


def refresh_all(
    tx: Transaction,
    changes: Mapping[tuple[str, str], UsageChange],
    now: datetime.datetime,
    pending: Sequence[usage.Pending] = (),
) -> None:
    """:func:`refresh_usage` of each (host, node), with as many statements as for one.

    All rows are locked in one order for all transactions, before any usage is summed.

    :param pending: writes to instances on these nodes; they are counted, and sent with the usage
    :raises errors.ComputeResourcesUnavailable: the usage of a node exceeds its limits
    """
    if len(changes) < 2:
        for (host, node), one in sorted(changes.items()):
            _refresh_one(tx, host, node, one, now, [each for each in pending if each.place() == (host, node)])
        return
    hosts, nodes = (sorted({place[which] for place in changes}) for which in (0, 1))
    locked = tx.execute(_ALL_LOCKED, {"hosts": hosts, "nodes": nodes}).all()
    counted = usage.of_nodes(tx, changes.keys(), pending)
    _defer(tx, pending)
    for found in locked:
        place = found.host, found.hypervisor_hostname
        if place in changes:
            _refresh(tx, found, counted[place], changes[place], now)


def _refresh_one(
    tx: Transaction,
    host: str,
    node: str,
    changes: UsageChange,
    now: datetime.datetime,
    pending: Sequence[usage.Pending] = (),
) -> None:
    found = _lock(tx, host, node)
    if found is None:
        _defer(tx, pending)
        return
    counted = usage.of_node(tx, host, node, pending)
    _defer(tx, pending)
    _refresh(tx, found, counted, changes, now)


def _defer(tx: Transaction, pending: Sequence[usage.Pending]) -> None:
    for each in pending:
        tx.defer_update(usage.INSTANCES, each.row.uuid, each.values)


def _refresh(
    tx: Transaction, found: NodeRow, counted: usage.Usage, changes: UsageChange, now: datetime.datetime
) -> None:
    """:param found: the node's row, locked"""
    host, node, built = found.host, found.hypervisor_hostname, changes.built
    used = _used(found, counted)
    for limits in changes.limits:
        _require_room(used, limits)
    failed = found.failed_builds if built is None else 0 if built else found.failed_builds + 1
    changed = {
        **used,
        "stats": {**usage.uncounted(found.stats or {}), **counted.stats, "failed_builds": failed},
        "failed_builds": failed,
        "updated_at": now,
    }
    if found.numa_topology or found.pci_device_pools or found.pci_stats:
        changed.update(hardware.columns(tx, host, node, found.numa_topology, found.pci_device_pools))
    tx.defer_update(NODES, found.id, changed)


def refresh_usages(tx: Transaction, places: Iterable[tuple[str | None, str | None]], now: datetime.datetime) -> None:
    """:func:`refresh_usage` of each (host, node) that is not None."""
    refresh_all(
        tx, {(host, node): UsageChange() for host, node in places if host is not None and node is not None}, now
    )


def miscounted(connection: sa.Connection, row: NodeRow) -> dict[str, tuple[object, object]]:
    """Columns of a node's ``row`` that differ from what instances hold: (value in the row, sum)."""
    host, node = row.host, row.hypervisor_hostname
    due = _used(row, usage.of_node(connection, host, node))
    due.update(hardware.columns(connection, host, node, row.numa_topology, row.pci_device_pools))
    # In the form in which the database returns it: without tuples, and with text as keys.
    due = json_codec.loads(json_codec.dumps(due))
    # An older release left out what a newer one writes as empty.
    return {
        name: (stored, amount)
        for name, amount in due.items()
        if (stored := getattr(row, name)) != amount and (stored or amount)
    }


def _used(node: NodeRow | HostReport, counted: usage.Usage) -> Columns:
    """Columns that follow from the inventory of ``node`` and from what instances hold of it."""
    # Three numbers that fit into a column may be more than fits together.
    memory_mb_used = min(node.reserved_memory_mb + node.orphaned_memory_mb + counted.memory_mb, fields.INT32_MAX)
    local_gb_used = min(node.reserved_disk_gb + counted.disk_gb, fields.INT32_MAX)
    return {
        "vcpus_used": min(node.reserved_vcpus + counted.vcpus, fields.INT32_MAX),
        "memory_mb_used": memory_mb_used,
        "free_ram_mb": capacity.free(node.memory_mb, memory_mb_used),
        "local_gb_used": local_gb_used,
        "free_disk_gb": capacity.free(node.local_gb, local_gb_used),
        "running_vms": counted.instances,
        "current_workload": counted.workload,
        "io_workload": counted.io_workload,
    }


def _require_room(used: Values, limits: HostLimits) -> None:
    """The host may have accepted a claim for room that the ledger still counts, because a message was lost or is late."""
    reasons = [
        f"{capacity.shown(most)} {unit} of {kind} may be used, {capacity.shown(used[column])} would be"
        for kind, unit, column, most in (
            ("memory", "MB", "memory_mb_used", limits.memory_mb),
            ("disk", "GB", "local_gb_used", limits.disk_gb),
            ("CPUs", "VCPUs", "vcpus_used", limits.vcpus),
        )
        if most is not None and capacity.usable(most, used[column]) < 0
    ]
    if reasons:
        raise errors.ComputeResourcesUnavailable(reason=f"As the ledger counts: {'; '.join(reasons)}")


def _lock(tx: Transaction, host: str, node: str) -> NodeRow | None:
    return cast("NodeRow | None", tx.execute(_LOCKED, {"on_host": host, "on_node": node}).one_or_none())


def totals(connection: sa.Connection, hosts: Iterable[str]) -> dict[str, list[Inventory]]:
    """Return, by host, the capacity of its nodes in the last report that was accepted."""
    columns = NODES.c["host", "hypervisor_hostname", "vcpus", "memory_mb", "local_gb"]
    query = sa.select(*columns).where(NODES.c.host.in_(list(hosts)), sa.not_(NODES.c.deleted))
    found: dict[str, list[Inventory]] = {}
    for row in connection.execute(query.order_by(NODES.c.id)):
        node = Inventory(row.hypervisor_hostname, row.vcpus, row.memory_mb, row.local_gb)
        found.setdefault(row.host, []).append(node)
    return found


def stat_of(connection: Transaction | sa.Connection, host: str | None, node: str | None, key: str) -> str | None:
    """Return the value of ``key`` in the ``stats`` that the node reports."""
    stats = connection.execute(_STATS, {"on_host": host, "on_node": node}).scalar_one_or_none()
    found = (stats or {}).get(key)
    return None if found is None else str(found)


def cpu_info(connection: Transaction | sa.Connection, host: str | None, node: str | None) -> str | None:
    """Return the node's report of its processor, as JSON."""
    query = sa.select(NODES.c.cpu_info).where(NODES.c.host == host, NODES.c.hypervisor_hostname == node)
    found: str | None = connection.execute(query).scalar_one_or_none()
    return found


def booted_at(connection: Transaction | sa.Connection, host: str, node: str) -> datetime.datetime | None:
    """Return when the machine of a node was started, by its report; None if that is no time."""
    try:
        seconds = int(stat_of(connection, host, node, host_report.BOOTED_AT) or "")
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return None


def names(connection: Transaction | sa.Connection) -> Sequence[str]:
    """Return the hosts that have nodes."""
    query = sa.select(NODES.c.host).where(sa.not_(NODES.c.deleted)).distinct()
    return connection.execute(query.order_by(NODES.c.host)).scalars().all()


def stats_of_all(
    connection: Transaction | sa.Connection, key: str, within: Collection[str] | None = None
) -> list[tuple[str, str | None]]:
    """Return, for each node, its host and the value of ``key`` in its ``stats``. :param within: only these hosts"""
    query = sa.select(NODES.c.host, NODES.c.stats[key].as_string()).where(sa.not_(NODES.c.deleted))
    if within is not None:
        query = query.where(NODES.c.host.in_(sorted(within)))
    return [
        (host, found) for host, found in connection.execute(query.order_by(NODES.c.host, NODES.c.hypervisor_hostname))
    ]


def reporting(connection: Transaction | sa.Connection, key: str, value: str, limit: int) -> Sequence[str]:
    """Return hosts that report ``value`` in their ``stats`` under ``key``, in their order. :param limit: the most of them"""
    query = sa.select(NODES.c.host).where(sa.not_(NODES.c.deleted), NODES.c.stats[key].as_string() == value)
    return connection.execute(query.order_by(NODES.c.host, NODES.c.hypervisor_hostname).limit(limit)).scalars().all()


def reporting_another(connection: Transaction | sa.Connection, key: str, value: str) -> list[str]:
    """Return the hosts that do not report ``value`` in their ``stats`` under ``key``."""
    reported = NODES.c.stats[key].as_string()
    others = sa.select(NODES.c.host).where(sa.not_(NODES.c.deleted), sa.or_(reported.is_(None), reported != value))
    return list(connection.execute(others.distinct().order_by(NODES.c.host)).scalars())


def all_report(connection: Transaction | sa.Connection, key: str, beside: str, value: str) -> bool:
    """Return True if the nodes that report ``value`` under ``beside`` all report something under ``key``."""
    stats = NODES.c.stats
    silent = sa.select(NODES.c.id).where(
        sa.not_(NODES.c.deleted), stats[beside].as_string() == value, stats[key].as_string().is_(None)
    )
    return connection.execute(silent.order_by(NODES.c.id).limit(1)).first() is None


def hypervisor_types(connection: sa.Connection, names: Collection[str] | None = None) -> dict[str, str]:
    """Return, by host, the hypervisor types of its nodes, separated by commas. :param names: only of these hosts"""
    query = sa.select(NODES.c.host, NODES.c.hypervisor_type).where(sa.not_(NODES.c.deleted)).distinct()
    if names is not None:
        query = query.where(NODES.c.host.in_(sorted(names)))
    found: dict[str, list[str]] = {}
    for row in connection.execute(query.order_by(NODES.c.host, NODES.c.hypervisor_type)):
        if row.hypervisor_type:
            found.setdefault(row.host, []).append(row.hypervisor_type)
    return {host: ",".join(types) for host, types in found.items()}


def of_hosts(connection: Transaction | sa.Connection, names: Collection[str]) -> Sequence[NodeRow]:
    """Return the nodes of these hosts."""
    query = sa.select(NODES).where(sa.not_(NODES.c.deleted), NODES.c.host.in_(sorted(names)))
    rows = connection.execute(query.order_by(NODES.c.host, NODES.c.hypervisor_hostname)).all() if names else ()
    return cast("Sequence[NodeRow]", rows)


def list_all(
    connection: Transaction | sa.Connection,
    host: str | None = None,
    columns: Sequence[str] = (),
    limit: int | None = None,
    marker: str | None = None,
) -> Sequence[NodeRow]:
    """
    :param columns: only these: those of JSON take most of the time
    :param marker: uuid of a node: only those after it
    :raises errors.NotFound: an unknown marker
    """
    query = (
        sa.select(*(NODES.c[name] for name in columns or NODES.c.keys()))
        .where(sa.not_(NODES.c.deleted))
        .order_by(NODES.c.host, NODES.c.hypervisor_hostname)
    )
    if host:
        query = query.where(NODES.c.host == host)
    if marker is not None:
        query = query.where(_after(connection, marker))
    return cast("Sequence[NodeRow]", connection.execute(query.limit(limit)).all())


def _after(connection: Transaction | sa.Connection, marker: str) -> sa.ColumnElement[bool]:
    """Also a node that was deleted meanwhile is a marker. :raises errors.NotFound:"""
    place = sa.select(NODES.c.host, NODES.c.hypervisor_hostname).where(NODES.c.uuid == marker)
    last = connection.execute(place).one_or_none()
    if last is None:
        raise errors.NotFound(kind="Node", name=marker)
    same_host = sa.and_(NODES.c.host == last.host, NODES.c.hypervisor_hostname > last.hypervisor_hostname)
    return sa.or_(NODES.c.host > last.host, same_host)
