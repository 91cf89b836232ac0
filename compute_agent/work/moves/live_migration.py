# SPDX-License-Identifier: Apache-2.0
"""The parts of a live migration that only a host can decide: whether a guest has left, and whether it has arrived.

Called by the modules beside it.
"""

from __future__ import annotations

from collections.abc import Callable

from oslo_log import log as logging

from compute_agent.drivers.base import DestinationUnreachable, LiveMigrationFailed, SpawnFailed
from compute_agent.ledger.move_calls import MoveCalls
from compute_agent.node.host import Host
from compute_agent.work import orders
from fleet import errors, move_states
from fleet.agent.patience import Unanswered
from fleet.context import RequestContext
from fleet.objects import Migration

LOG = logging.getLogger(__name__)


class Unknown(Exception):
    """A live migration has neither succeeded nor failed: the source must find out where the guest is."""


def run(context: RequestContext, host: Host, migration: Migration, progress: Callable[[int], object]) -> None:
    """Move the guest. A migration that is to be aborted is not started; one under way is followed to its end.

    A guest with a part of its memory on a lost destination is switched off: it cannot continue on any host. A guest that is
    not here any more, and whose destination does not answer, has left only if that host is off for certain. A deadline
    proves nothing.

    :raises LiveMigrationFailed: errors.NotSupported: the guest has not left
    :raises Unknown: the same call must be made again
    """
    driver, instance, dest = host.driver, migration.at_source, migration.dest_compute or ""
    aborted, held = migration.is_aborted, migration.held
    cells = held and held.claimed and held.claimed.numa_topology
    # Only drivers that report to take running guests with cells get any.
    anew = {"cells": cells} if cells else {}
    is_lost = move_states.failed_with(migration.failure, move_states.DESTINATION_LOST)
    try:
        if _end_lost_half(context, host, migration):
            raise LiveMigrationFailed(f"The guest was switched off: a part of its memory was on {dest}")
        if aborted:
            driver.live_migration_abort(context, instance.uuid)
        driver.live_migration(context, instance, dest, progress, begin=not aborted, **anew)
    except (LiveMigrationFailed, errors.NotSupported):
        raise
    except DestinationUnreachable as unreachable:
        if not is_lost:
            raise Unknown(str(unreachable)) from unreachable
        LOG.warning("The guest counts as moved to host %s, which is off for certain: %s", dest, unreachable)
    except Exception as failed:
        raise Unknown(f"{type(failed).__name__}: {failed}") from failed


def _end_lost_half(context: RequestContext, host: Host, migration: Migration) -> bool:
    """Switch the guest off if a part of its memory is lost with the destination. Return True if it is."""
    lost = move_states.failed_with(migration.failure, move_states.DESTINATION_LOST)
    if not lost or not host.driver.is_halfway(migration.instance.uuid):
        return False
    LOG.warning("The guest is switched off: a part of its memory is lost with host %s", migration.dest_compute)
    host.driver.power_off(context, migration.at_source)
    return True


def abort(context: RequestContext, host: Host, calls: MoveCalls, instance_uuid: str) -> None:
    """Abort a live migration from this host if its record orders it. Another thread may run the migration meanwhile.

    A post-copy cannot be aborted: it ends with the guest, if the destination is lost.
    """
    context = context.about(instance_uuid=instance_uuid, host=host.name)
    try:
        migration = calls.find(context, host.name, instance_uuid)
        if migration is None or migration.actor != host.name or not migration.is_aborted:
            orders.unwanted(orders.ABORT, instance_uuid, host.name, "no live migration of it is to be aborted")
            return
        if not _end_lost_half(context, host, migration):
            host.driver.live_migration_abort(context, instance_uuid)
    except (errors.FleetError, SpawnFailed, Unanswered) as failed:
        LOG.warning("A live migration is not aborted; the conductor will send the order again: %s", failed)


def require_over(host: Host, migration: Migration) -> None:
    """A half is worth keeping only as long as the other one is there: not if that host is off for certain.

    :raises Unknown: a part of the guest's memory is here, and a part on the other host: the end of either loses both
    """
    if move_states.has_lost_source(migration.failure):
        return
    other = migration.dest_compute if host.name == migration.source_compute else migration.source_compute
    if host.driver.waits_for(migration.instance.uuid, other or ""):
        raise Unknown(f"the guest has a part of its memory here, and a part on {other}")


def end_half(context: RequestContext, host: Host, migration: Migration) -> None:
    """Switch off a guest that has continued here without all of its memory, if its source is off for certain."""
    if not move_states.has_lost_source(migration.failure) or not host.driver.is_halfway(migration.instance.uuid):
        return
    LOG.warning("The guest is switched off: a part of its memory is lost with host %s", migration.source_compute)
    host.driver.power_off(context, migration.at_destination)


def require_not_here(host: Host, migration: Migration) -> None:
    """Look once more, since libvirt moves a guest without the agents.

    :raises Unknown: the guest has arrived since the last look, or is about to
    """
    require_over(host, migration)
    if has_arrived(host, migration):
        raise Unknown("the guest has arrived meanwhile")


def has_arrived(host: Host, migration: Migration) -> bool:
    """Return True if the source was lost, and its guest is here."""
    uuid = migration.instance.uuid
    there = move_states.failed_with(migration.failure, move_states.LOST) and host.driver.has_arrived(uuid)
    if there:
        LOG.warning("The guest of instance %s is here: its source was lost after the guest had left", uuid)
    return there
