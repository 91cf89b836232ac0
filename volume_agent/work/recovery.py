# SPDX-License-Identifier: Apache-2.0
"""Compares a backend with the ledger.

Called by :mod:`volume_agent.agent`. When the agent starts, :func:`recover` continues what was begun, and removes what
an earlier attempt has left. Later, :func:`remove_left` removes what attempts have left whose end the agent could not
report in time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable

from oslo_log import log as logging

from fleet import errors, volume_states
from fleet.agent.patience import Unanswered
from fleet.agent.work_queues import WorkQueues
from fleet.context import RequestContext
from fleet.objects import Volume
from volume_agent.backends.backend import Backend
from volume_agent.drivers.base import Stored
from volume_agent.ledger.volume_calls import VolumeCalls

LOG = logging.getLogger(__name__)

#: Volumes named in one log line, and in one message.
_NAMED = 5
_ASKED = 500


def recover(
    context: RequestContext, backend: Backend, calls: VolumeCalls, order: Callable[[RequestContext, str], object]
) -> None:
    """Continue what was begun on a backend, and remove what was left on its pools.

    A volume is removed from a pool only if the ledger has it deleted, or knows that it has left data there. All others that
    are not expected stay: here may be all that there is of them. So does one on a wrong pool of the backend that is not on
    the right one.

    A backend on which this fails counts as down until it succeeds.

    :param order: queues the work on a volume
    :raises patience.Unanswered: only when the agent stops
    :raises OSError: the backend cannot be used now
    """
    try:
        _recover(context, backend, calls, order)
    except Exception as failure:
        backend.unready = str(failure) or type(failure).__name__
        raise
    backend.unready = ""


def _recover(
    context: RequestContext, backend: Backend, calls: VolumeCalls, order: Callable[[RequestContext, str], object]
) -> None:
    backend.ask("recovery", backend.driver.init_backend)
    stored = backend.ask("recovery", backend.driver.volumes)
    recorded = calls.of_host(context, backend.name)
    _require_data(backend, recorded.values(), stored)
    unrecorded = {(each.uuid, each.pool) for each in stored if each.uuid not in recorded}
    removable = _removable(context, backend, calls, unrecorded)
    there = {(each.uuid, each.pool) for each in stored}
    for each in stored:
        if (each.uuid, each.pool) in removable or _is_left(each, recorded.get(each.uuid), backend.name, there):
            backend.ask("recovery", functools.partial(_remove, backend, each))
    unknown = sorted({uuid for uuid, _pool in unrecorded - removable})
    backend.set_strays(unknown)
    if unknown:
        named = ", ".join(unknown[:_NAMED]) + (", …" if len(unknown) > _NAMED else "")
        said = "Backend %s has %d volumes that the ledger does not know, or has elsewhere: %s"
        LOG.warning(said, backend.name, len(unknown), named)
    for uuid, volume in recorded.items():
        if volume.acting[0] == backend.name:
            order(context, uuid)
        elif _is_lost(volume, backend.name, there):
            kind = "Volume" if volume.snapshot_of is None else "Snapshot"
            LOG.error("%s %s (%s) is lost: it is not on %s", kind, uuid, volume.name, volume.location)


def _removable(
    context: RequestContext, backend: Backend, calls: VolumeCalls, found: Collection[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Return those of the volumes, by uuid and pool, that may be removed from the pool.

    The ledger is asked about each pool by itself: on another pool may be all that there is of a volume.
    """
    allowed: set[tuple[str, str]] = set()
    for pool in sorted({pool for _uuid, pool in found}):
        here = sorted(uuid for uuid, its_pool in found if its_pool == pool)
        for start in range(0, len(here), _ASKED):
            answer = calls.removable(context, backend.name, here[start : start + _ASKED], pool)
            allowed |= {(uuid, pool) for uuid in answer}
    return allowed


def _require_data(backend: Backend, recorded: Iterable[Volume], stored: Collection[Stored]) -> None:
    """Refuse a pool that has no data, although the ledger has volumes there: its file system may not be mounted.

    What would be made there now would be hidden by the mount. A simulated pool forgets its data with its process.

    :raises OSError:
    """
    filled, there = {each.pool for each in stored}, {(each.uuid, each.pool) for each in stored}
    lost = [each for each in recorded if each.pool not in filled and _is_lost(each, backend.name, there)]
    if lost and not backend.driver.simulated:
        first = min(lost, key=lambda each: each.uuid)
        number = sum(each.pool == first.pool for each in lost)
        raise OSError(
            f"pool {first.pool} is empty, and the ledger has {number} volumes there, such as {first.uuid} ({first.name}): "
            "mount its storage; if the data are gone for good, delete the volumes with 'fleet volume delete --force'"
        )


def remove_left(context: RequestContext, backend: Backend, calls: VolumeCalls, queues: WorkQueues) -> None:
    """Remove volumes that the ledger has deleted, or knows to have left data here, while the backend serves.

    Each is looked up again in its own queue, where no other work on it runs. A volume with work in its queue is left to
    that work.
    """
    try:
        stored = backend.ask("comparison", backend.driver.volumes)
        idle = {(each.uuid, each.pool) for each in stored if not queues.busy(each.uuid)}
        for uuid, pool in sorted(_removable(context, backend, calls, idle)):
            queues.submit(uuid, functools.partial(_remove_left, context, backend, calls, uuid, pool))
    except (OSError, Unanswered, errors.FleetError) as failure:
        LOG.warning("Backend %s is not compared with the ledger now: %s", backend.name, failure)
    except Exception:
        LOG.exception("Backend %s is not compared with the ledger now", backend.name)


def _remove_left(context: RequestContext, backend: Backend, calls: VolumeCalls, uuid: str, pool: str) -> None:
    try:
        if not calls.removable(context, backend.name, [uuid], pool):
            return
        for each in backend.driver.volumes():
            if (each.uuid, each.pool) == (uuid, pool):
                _remove(backend, each)
    except (OSError, Unanswered, errors.FleetError) as failure:
        LOG.warning("Volume %s stays on backend %s until the next comparison: %s", uuid, backend.name, failure)


def _remove(backend: Backend, stored: Stored) -> None:
    LOG.info("Removing volume %s from %s#%s: the ledger does not have it there", stored.uuid, backend.name, stored.pool)
    backend.driver.delete(stored.uuid, stored.pool)


def _is_left(stored: Stored, volume: Volume | None, host: str, there: Collection[tuple[str, str | None]]) -> bool:
    """Return True if an aborted migration has left this on a pool, while the volume is on another one of the backend."""
    if volume is None or stored.pool in volume.pools_on(host):
        return False
    return any((volume.uuid, pool) in there for pool in volume.pools_on(host))


def _is_lost(volume: Volume, host: str, there: Collection[tuple[str, str | None]]) -> bool:
    is_made = volume.status in (volume_states.AVAILABLE, *volume_states.WITH_A_GUEST)
    return is_made and volume.host == host and (volume.uuid, volume.pool) not in there
