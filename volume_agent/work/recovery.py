# SPDX-License-Identifier: Apache-2.0
"""Compares a backend with the ledger when its agent starts: continues what was begun, and removes what is nobody's."""

from __future__ import annotations

from collections.abc import Callable, Collection

from oslo_log import log as logging

from fleet import volume_states
from fleet.context import RequestContext
from fleet.objects import Volume
from volume_agent.backends.backend import Backend
from volume_agent.drivers.base import Stored
from volume_agent.ledger.volume_calls import VolumeCalls

LOG = logging.getLogger(__name__)

#: Volumes named in one log line.
_NAMED = 5


def recover(
    context: RequestContext, backend: Backend, calls: VolumeCalls, order: Callable[[RequestContext, str], object]
) -> None:
    """A volume is removed only if the ledger has it deleted or elsewhere. One that the ledger does not know stays, and so
    does one on a wrong pool of the backend that is not on the right one.

    :param order: queues the work on a volume
    :raises patience.Unanswered: only when the agent stops
    :raises OSError: the backend cannot be used now
    """
    backend.driver.init_backend()
    stored = backend.driver.volumes()
    recorded = calls.of_host(context, backend.name)
    unrecorded = {each.uuid for each in stored} - recorded.keys()
    removable = set(calls.removable(context, backend.name, unrecorded)) if unrecorded else set()
    there = {(each.uuid, each.pool) for each in stored}
    for each in stored:
        if each.uuid in removable or _is_left(each, recorded.get(each.uuid), backend.name, there):
            LOG.info(
                "Removing volume %s from %s#%s: the ledger does not have it there", each.uuid, backend.name, each.pool
            )
            backend.driver.delete(each.uuid, each.pool)
    unknown = sorted(unrecorded - removable)
    backend.set_strays(unknown)
    if unknown:
        named = ", ".join(unknown[:_NAMED]) + (", …" if len(unknown) > _NAMED else "")
        LOG.warning("Backend %s has %d volumes that the ledger does not know: %s", backend.name, len(unknown), named)
    for uuid, volume in recorded.items():
        if volume.acting[0] == backend.name:
            order(context, uuid)
        elif _is_lost(volume, backend.name, there):
            kind = "Volume" if volume.snapshot_of is None else "Snapshot"
            LOG.error("%s %s (%s) is lost: it is not on %s", kind, uuid, volume.name, volume.location)


def _is_left(stored: Stored, volume: Volume | None, host: str, there: Collection[tuple[str, str | None]]) -> bool:
    """Whether an aborted migration has left this on a pool, while the volume is on another one of the backend."""
    if volume is None or stored.pool in volume.pools_on(host):
        return False
    return any((volume.uuid, pool) in there for pool in volume.pools_on(host))


def _is_lost(volume: Volume, host: str, there: Collection[tuple[str, str | None]]) -> bool:
    return (volume.status, volume.host) == (volume_states.AVAILABLE, host) and (volume.uuid, volume.pool) not in there
