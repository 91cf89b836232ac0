# SPDX-License-Identifier: Apache-2.0
"""Checks orders against the ledger. An order is a hint: it may be late, sent to the wrong host, or forged.

Called by :mod:`compute_agent.manager` and the modules beside it.

| Order                    | What confirms it                                                              |
|--------------------------|-------------------------------------------------------------------------------|
| `build_and_run_instance` | the claim's compare-and-set, before the spawn: no message besides             |
| `advance_migration`      | the migration record, which the host reads before every step                  |
| `live_migration_abort`   | the migration record, which the host reads before it acts                     |
| `advance_power`          | the instance's row, which the host reads before it acts                       |
| `advance_attachments`    | the attachments' rows, which the host reads before it acts                    |
| `terminate_instance`     | the instance's row, or its migration record, read by :func:`wants_termination` |
"""

from __future__ import annotations

from oslo_log import log as logging

from compute_agent.ledger.build_calls import BuildCalls
from compute_agent.ledger.move_calls import MoveCalls
from compute_agent.node.host import Host
from fleet import errors, states
from fleet.context import RequestContext
from fleet.objects import Instance, fields
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)

BUILD, TERMINATE, ADVANCE, POWER, ATTACH, ABORT = "build", "terminate", "advance", "power", "attach", "abort"
INVALID, UNWANTED, UNCONFIRMED = "invalid", "unwanted", "unconfirmed"


class OrderDiffers(Exception):
    """A build order that describes another instance than the row that was claimed for it."""


def invalid(order: str, message: str) -> None:
    metrics.ORDERS_DROPPED.labels(order, INVALID).inc()
    LOG.error("Dropping a %s order: %s", order, message)


def uuid_of(order: str, instance_uuid: object) -> str | None:
    """Return the uuid of the instance that an order is about; None if that is no uuid: the order is invalid."""
    try:
        return fields.parse(fields.Uuid, instance_uuid, "instance_uuid")
    except errors.InvalidInput as wrong:
        invalid(order, wrong.message)
        return None


def unwanted(order: str, uuid: str, host: str, reason: str) -> None:
    """The row does not confirm the order. Logged as a warning: the sender is broken or hostile."""
    metrics.ORDERS_DROPPED.labels(order, UNWANTED).inc()
    LOG.warning("Dropping a %s order for instance %s on %s: %s", order, uuid, host, reason)


def unconfirmed(order: str, uuid: str, host: str, silence: Exception) -> None:
    """The conductor did not answer. Its sweeper repeats an order that the row wants."""
    metrics.ORDERS_DROPPED.labels(order, UNCONFIRMED).inc()
    LOG.warning("Not acting on a %s order for instance %s on %s: %s", order, uuid, host, silence)


def wants_termination(
    context: RequestContext, host: Host, calls: BuildCalls, moves: MoveCalls | None, uuid: str
) -> str | None:
    """Return None if the row confirms that the guest is to be destroyed here, else the reason against it.

    A deletion is never taken back, so the answer is still true when the work begins.

    :raises patience.Unanswered:
    """
    instance = calls.find_instance(context, host.name, uuid)
    if instance is None and moves is not None:
        migration = moves.find(context, host.name, uuid)
        instance = migration.instance if migration else None
    if instance is None:
        return "the ledger does not have it on this host"
    if instance.task_state != states.DELETING:
        return f"its row is {instance.vm_state}/{instance.task_state or '-'}, not {states.DELETING}"
    return None


def require_same(ordered: Instance, recorded: Instance) -> None:
    """Compare order and row: the claim used the order, the spawn uses the row. :raises OrderDiffers:"""
    for field in ("flavor", "numa_topology", "pci_requests"):
        if getattr(ordered, field) != getattr(recorded, field):
            raise OrderDiffers(f"The order's {field} is not the row's: the order is not from this fleet's conductor")
