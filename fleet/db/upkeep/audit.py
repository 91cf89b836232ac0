# SPDX-License-Identifier: Apache-2.0
"""Finds contradictions in the ledger, and heals those that follow from other rows.

Called by :mod:`fleet_cli.upkeep.audit`. A healed value is computed again under the lock that its writers take, so an
audit may run beside the daemons. What needs a decision of an operator (an instance whose host is gone) is only
reported.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, cast

import sqlalchemy as sa

from fleet import move_states, states, volume_states
from fleet.clock import seconds
from fleet.db.engine import claimed, unreadable
from fleet.db.engine.database import Transaction
from fleet.db.hosts import hosts, services
from fleet.db.instances import addresses, history, instances, moves
from fleet.db.tables import models
from fleet.db.tables.moves import MigrationRow
from fleet.db.volumes import attachments, volumes

INSTANCES = models.instances
FAULTS = models.instance_faults
SERVICES = models.services
MIGRATIONS = models.migrations

#: Seconds after which an overdue step is an error: several rounds of a sweeper.
GRACE_S = 120
NO_FAULT = "FaultNotRecorded"

#: Called with the transaction and the time.
Heal = Callable[[Transaction, datetime.datetime], object]


@dataclasses.dataclass(frozen=True)
class Inconsistency:
    """``name``: of a node, an instance or a volume. If ``heal`` is None, the operator must repair it as ``fix`` advises."""

    kind: str
    name: str
    found: str
    fix: str
    heal: Heal | None = None


def find(connection: sa.Connection, now: datetime.datetime) -> list[Inconsistency]:
    """All contradictions in one snapshot."""
    checks = (
        _usage(connection),
        _faults(connection),
        _claims(connection),
        _placed(connection),
        _late(connection, now),
        _late_moves(connection, now),
        _attachments(connection, now),
        _addresses(connection),
        _unreadable(connection),
    )
    return [each for check in checks for each in check]


def _unreadable(connection: sa.Connection) -> Iterator[Inconsistency]:
    rows, _complete = unreadable.find(connection, math.inf)
    for row in rows:
        text = f"{row.column} of {row.table} {row.key} cannot be read: {row.problem}"
        yield Inconsistency("unreadable", row.name or row.key, text, "delete it, or have its owner do so")


def _usage(connection: sa.Connection) -> Iterator[Inconsistency]:
    for row in hosts.list_all(connection):
        wrong = hosts.miscounted(connection, row)
        if wrong:
            yield Inconsistency(
                "usage",
                f"{row.host}:{row.hypervisor_hostname}",
                ", ".join(_difference(name, *values) for name, values in sorted(wrong.items())),
                "its usage is summed again",
                _recount(row.host, row.hypervisor_hostname),
            )


def _difference(name: str, stored: object, held: object) -> str:
    """Text of a value. Cells and devices are left out, as they would fill the screen."""
    return f"{name} is {stored}, but {held} is held" if isinstance(held, int) else f"{name} differs from what is held"


def _recount(host: str, node: str) -> Heal:
    return lambda tx, now: hosts.refresh_usage(tx, host, node, now)


def _faults(connection: sa.Connection) -> Iterator[Inconsistency]:
    for row in connection.execute(_columns(_IN_ERROR, _WITHOUT_FAULT)):
        found = "it is in ERROR without a fault"
        yield Inconsistency("fault", _named(row), found, "a fault is added", _add_fault(row.uuid))


def _add_fault(uuid: str) -> Heal:
    def add(tx: Transaction, now: datetime.datetime) -> None:
        query = sa.select(INSTANCES).where(INSTANCES.c.uuid == uuid, _IN_ERROR, _WITHOUT_FAULT)
        row = tx.execute(query.with_for_update()).one_or_none()
        if row is not None:
            message = "Why this instance is in ERROR was not recorded; found by an audit."
            whose = {"host": row.host, "request_id": row.request_id}
            history.add_fault(tx, uuid, error=NO_FAULT, code=500, message=message, details={}, now=now, **whose)

    return add


def _claims(connection: sa.Connection) -> Iterator[Inconsistency]:
    """Claims without a host: no node counts them, and they would return with the next host."""
    for row in connection.execute(_columns(_NO_HOST, _HOLDING)):
        yield Inconsistency(
            "claim", _named(row), "it has a claim but no host", "the claim is removed", _drop_claim(row.uuid)
        )
    for row in connection.execute(
        _columns(_NO_HOST, INSTANCES.c.vm_state == states.ACTIVE, INSTANCES.c.task_state.is_(None))
    ):
        yield Inconsistency("claim", _named(row), "it is ACTIVE without a host", "delete it")


def _drop_claim(uuid: str) -> Heal:
    def drop(tx: Transaction, now: datetime.datetime) -> None:
        where = (INSTANCES.c.uuid == uuid, _LIVE, _NO_HOST)
        tx.execute(INSTANCES.update().where(*where).values(updated_at=now, node=None, **claimed.NOTHING))
        tx.touch(INSTANCES, uuid)

    return drop


def _placed(connection: sa.Connection) -> Iterator[Inconsistency]:
    agent = sa.select(SERVICES.c.id).where(
        SERVICES.c.host == INSTANCES.c.host, SERVICES.c.binary == services.COMPUTE, sa.not_(SERVICES.c.deleted)
    )
    nodes = models.compute_nodes
    node = sa.select(nodes.c.id).where(
        nodes.c.host == INSTANCES.c.host,
        nodes.c.hypervisor_hostname == INSTANCES.c.node,
        sa.not_(nodes.c.deleted),
    )
    for what, there in (("service", agent), ("node", node)):
        for row in connection.execute(_columns(INSTANCES.c.host.is_not(None), sa.not_(there.exists()))):
            place = row.host if what == "service" else f"{row.host}:{row.node}"
            found = f"it is on {place}, which has no {what}"
            yield Inconsistency("host", _named(row), found, "start the host's agent again, or delete the instance")


def _late(connection: sa.Connection, now: datetime.datetime) -> Iterator[Inconsistency]:
    limit = now - seconds(GRACE_S)
    building = sa.and_(INSTANCES.c.vm_state == states.BUILDING, INSTANCES.c.deadline < limit)
    stepping = sa.and_(INSTANCES.c.task_state.is_not(None), INSTANCES.c.step_deadline < limit)
    for row in connection.execute(_columns(sa.or_(building, stepping))):
        due = min(filter(None, (row.deadline if row.vm_state == states.BUILDING else None, row.step_deadline)))
        late_s = (now - due).total_seconds()
        found = f"{row.task_state or row.vm_state} is overdue by {late_s:.0f} s"
        yield Inconsistency("step", _named(row), found, _NOBODY_SWEEPS)


class _LateMove(MigrationRow, Protocol):
    step_deadline: datetime.datetime


def _late_moves(connection: sa.Connection, now: datetime.datetime) -> Iterator[Inconsistency]:
    """Overdue steps. The step deadline of a move is in its record, not in the row of the instance."""
    late = (MIGRATIONS.c.status.in_(move_states.UNDER_WAY), MIGRATIONS.c.step_deadline < now - seconds(GRACE_S))
    for row in cast("Sequence[_LateMove]", moves.list_all(connection, *late)):
        found = f"{row.migration_type} is overdue in {row.status} by {(now - row.step_deadline).total_seconds():.0f} s"
        yield Inconsistency("step", f"{row.instance_uuid} ({row.uuid})", found, _NOBODY_SWEEPS)


def _attachments(connection: sa.Connection, now: datetime.datetime) -> Iterator[Inconsistency]:
    """A volume has the status of its attachment, whose instance is there."""
    volume, attached = volumes.VOLUMES.c, attachments.ATTACHMENTS.c
    expected = sa.case((attached.status == volume_states.ATTACHED, volume_states.IN_USE), else_=attached.status)
    alone = sa.and_(attached.uuid.is_(None), volume.status.in_(volume_states.WITH_A_GUEST))
    wrong = sa.or_(INSTANCES.c.deleted, volume.status != expected, alone)
    rows = sa.select(volume.uuid, volume.name, volume.status, INSTANCES.c.name.label("instance"), INSTANCES.c.deleted)
    rows = rows.outerjoin(attachments.ATTACHMENTS, attached.volume_uuid == volume.uuid)
    rows = rows.outerjoin(INSTANCES, attached.instance_uuid == INSTANCES.c.uuid)
    for row in connection.execute(rows.where(wrong, sa.not_(volume.deleted)).order_by(volume.uuid)):
        guest = row.instance or "no instance"
        found = f"it is {row.status}, and attached to {guest}{', which is deleted' if row.deleted else ''}"
        yield Inconsistency("volume", _named(row), found, "it gets the status of its attachment", _agree(row.uuid))
    for each in attachments.due(connection, now - seconds(GRACE_S), _MOST_LATE):
        found = f"{each.status} is overdue by {(now - each.step_deadline).total_seconds():.0f} s"
        yield Inconsistency("step", f"{each.volume_name} ({each.volume_uuid})", found, _NOBODY_SWEEPS)


def _agree(uuid: str) -> Heal:
    def agree(tx: Transaction, now: datetime.datetime) -> None:
        known = attachments.of_volumes(tx, [uuid]).get(uuid)
        row = attachments.lock(tx, known.uuid) if known is not None else None
        if row is None:
            status = volume_states.AVAILABLE
        elif instances.get(tx, row.instance_uuid).deleted:
            attachments.remove(tx, row, now)
            return
        else:
            status = volume_states.IN_USE if row.status == volume_states.ATTACHED else row.status
        volume = volumes.lock(tx, uuid)
        if volume.status != status and (row is not None or volume.status in volume_states.WITH_A_GUEST):
            volumes.write(tx, volume, now, status=status)

    return agree


def _addresses(connection: sa.Connection) -> Iterator[Inconsistency]:
    """Find addresses that an instance holds after its end, and addresses that a live one shows without a claim.

    The latter are reported only: another instance may have claimed them since.
    """
    claims, columns = addresses.ADDRESSES, (INSTANCES.c.uuid, INSTANCES.c.name)
    # Without a host it has a deadline as long as its last one is to remove the guest.
    over = sa.or_(INSTANCES.c.deleted, sa.and_(_IN_ERROR, _NO_HOST, INSTANCES.c.step_deadline.is_(None)))
    held = sa.select(*columns).join(claims, claims.c.instance_uuid == INSTANCES.c.uuid).where(over).distinct()
    for row in connection.execute(held.order_by(*columns)):
        found = "it has addresses after its end"
        yield Inconsistency("address", _named(row), found, "they are released", _release(row.uuid))
    claim = sa.select(claims.c.uuid).where(claims.c.instance_uuid == INSTANCES.c.uuid).exists()
    for row in connection.execute(_columns(INSTANCES.c.interfaces.is_not(None), sa.not_(claim))):
        yield Inconsistency("address", _named(row), "it shows addresses that it has not claimed", "delete it")


def _release(uuid: str) -> Heal:
    def release(tx: Transaction, now: datetime.datetime) -> None:
        row = instances.lock(tx, uuid)
        if row.deleted or (row.vm_state == states.ERROR and row.host is None and row.step_deadline is None):
            addresses.release(tx, uuid)
            tx.update(INSTANCES, uuid, {"interfaces": None})

    return release


#: Overdue attachments in one audit.
_MOST_LATE = 1000
_NOBODY_SWEEPS = "no conductor sweeps: start one, or read its log"
_LIVE = sa.not_(INSTANCES.c.deleted)
_NO_HOST = INSTANCES.c.host.is_(None)
_IN_ERROR = INSTANCES.c.vm_state == states.ERROR
_WITHOUT_FAULT = sa.not_(sa.select(FAULTS.c.id).where(FAULTS.c.instance_uuid == INSTANCES.c.uuid).exists())
_HOLDING = sa.or_(
    INSTANCES.c.claimed_vcpus > 0,
    INSTANCES.c.claimed_memory_mb > 0,
    INSTANCES.c.claimed_disk_gb > 0,
    INSTANCES.c.claimed_numa_topology.is_not(None),
    INSTANCES.c.claimed_pci_devices.is_not(None),
)


def _columns(*where: Any) -> sa.Select[Any]:
    """Live instances by uuid."""
    names = ("uuid", "name", "host", "node", "vm_state", "task_state", "deadline", "step_deadline")
    columns = [INSTANCES.c[name] for name in names]
    return sa.select(*columns).where(_LIVE, *where).order_by(INSTANCES.c.uuid)


def _named(row: sa.Row[*tuple[object, ...]]) -> str:
    return f"{row.name} ({row.uuid})"
