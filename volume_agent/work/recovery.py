# SPDX-License-Identifier: Apache-2.0
"""Compares a backend with the ledger when its agent starts: continues what was begun, and removes what is nobody's."""

from __future__ import annotations

from collections.abc import Callable

from oslo_log import log as logging

from fleet import volume_states
from fleet.context import RequestContext
from volume_agent.backends.backend import Backend
from volume_agent.ledger.volume_calls import VolumeCalls

LOG = logging.getLogger(__name__)

#: Volumes named in one log line.
_NAMED = 5


def recover(
    context: RequestContext, backend: Backend, calls: VolumeCalls, order: Callable[[RequestContext, str], object]
) -> None:
    """A volume is removed only if the ledger has it deleted or elsewhere. One that the ledger does not know stays.

    :param order: queues the work on a volume
    :raises patience.Unanswered: only when the agent stops
    :raises OSError: the backend cannot be used now
    """
    backend.driver.init_backend()
    stored = backend.driver.volumes()
    recorded = calls.of_host(context, backend.name)
    unrecorded = stored.keys() - recorded.keys()
    removable = set(calls.removable(context, backend.name, unrecorded)) if unrecorded else set()
    for uuid in sorted(removable):
        LOG.info("Removing volume %s from %s: the ledger has deleted it, or has it elsewhere", uuid, backend.name)
        backend.driver.delete(uuid, stored[uuid].pool)
    unknown = sorted(unrecorded - removable)
    backend.set_strays(unknown)
    if unknown:
        named = ", ".join(unknown[:_NAMED]) + (", …" if len(unknown) > _NAMED else "")
        LOG.warning("Backend %s has %d volumes that the ledger does not know: %s", backend.name, len(unknown), named)
    for uuid, volume in recorded.items():
        if volume.step == volume_states.WORKING:
            order(context, uuid)
        elif volume.status == volume_states.AVAILABLE and uuid not in stored:
            kind = "Volume" if volume.snapshot_of is None else "Snapshot"
            LOG.error("%s %s (%s) is lost: it is not on %s", kind, uuid, volume.name, volume.location)
