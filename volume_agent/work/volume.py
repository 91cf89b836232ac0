# SPDX-License-Identifier: Apache-2.0
"""Does what the status of a volume asks of its backend, and reports it.

Called by :mod:`volume_agent.manager`. An order is a hint, which may be late, repeated or forged: the volume's row is
read before anything is done.
"""

from __future__ import annotations

import time

from oslo_log import log as logging

from fleet import control_characters, errors, failpoints, volume_states
from fleet.agent.patience import Unanswered
from fleet.context import RequestContext
from fleet.objects import Volume, VolumeConnection
from volume_agent.backends.backend import Backend
from volume_agent.drivers.base import ExtensionUnfinished
from volume_agent.ledger.volume_calls import VolumeCalls

LOG = logging.getLogger(__name__)
#: Of the message of a failure. Drivers may quote the whole answer of a storage, and a database takes no more than 64 KiB.
_MOST_CHARACTERS = 1000


class VolumeWorker:
    """Runs for one volume at a time in one thread: see ``fleet.agent.work_queues``."""

    def __init__(self, backend: Backend, calls: VolumeCalls) -> None:
        self._backend = backend
        self._calls = calls

    def run(self, context: RequestContext, uuid: str) -> None:
        """Read the volume and act, until nothing is left to do here."""
        if self._backend.hangs:
            # Each such order would take a thread from the other backends of the process.
            LOG.warning(
                "Volume %s is left to the conductor's sweeper: the storage of %s hangs", uuid, self._backend.name
            )
            return
        try:
            volume = self._calls.find(context, self._backend.name, uuid)
            while volume is not None and self._is_mine(volume):
                if volume.step != volume_states.COPYING:
                    self._backend.adopt(uuid)
                context = context.under(volume.request_id).about(
                    volume=uuid, attempt=volume.attempt, host=self._backend.name
                )
                volume = self._act(context, volume)
        except Unanswered as silence:
            LOG.warning("Volume %s is left to the conductor's sweeper: %s", uuid, silence)

    def manageable(self) -> list[dict[str, object]]:
        """Return the data on the backend that are no volume. :raises errors.NotSupported: errors.ServiceDown:"""
        try:
            found = self._backend.driver.manageable()
        except OSError as failure:
            raise self._unusable(failure) from None
        return [
            {"pool": each.pool, "reference": each.reference, "size_gb": each.size_gb, "reason": each.reason}
            for each in found
        ]

    def connection(self, uuid: str, pool: str) -> VolumeConnection:
        """Return where the data of a volume are. :raises errors.NotFound: errors.NotSupported: errors.ServiceDown:"""
        try:
            return self._backend.driver.connection(uuid, pool)
        except FileNotFoundError:
            raise errors.NotFound(kind="Volume", name=f"{uuid} on {self._backend.name}#{pool}") from None
        except OSError as failure:
            raise self._unusable(failure) from None

    def _unusable(self, failure: OSError) -> errors.ServiceDown:
        reason = f"it cannot be used: {failure}"
        return errors.ServiceDown(binary="fleet-volume", host=self._backend.name, reason=reason)

    def _is_mine(self, volume: Volume) -> bool:
        return volume.acting[0] == self._backend.name

    def _act(self, context: RequestContext, volume: Volume) -> Volume | None:
        """Return the volume as it is after this step; None to stop."""
        if volume.step == volume_states.COPYING:
            return self._receive(context, volume)
        if volume.step == volume_states.REMOVING:
            return self._leave(context, volume)
        if volume.status == volume_states.CREATING:
            return self._create(context, volume)
        if volume.status == volume_states.EXTENDING:
            return self._extend(context, volume)
        if volume.status == volume_states.RETYPING:
            return self._retype(context, volume)
        if volume.status == volume_states.MANAGING:
            return self._manage(context, volume)
        if volume.status == volume_states.UNMANAGING:
            return self._unmanage(context, volume)
        if volume.status == volume_states.DELETING:
            return self._delete(context, volume)
        LOG.warning("Volume %s is %s, which this agent does not know", volume.uuid, volume.status)
        return None

    def _create(self, context: RequestContext, volume: Volume) -> Volume | None:
        began = time.monotonic()
        try:
            failpoints.hit("agent.volume.before")
            self._backend.driver.create(volume)
        except Exception as failure:
            LOG.warning("Volume of %d GiB failed on pool %s: %s", volume.size_gb, volume.pool, failure)
            return self._not_made(context, volume, failure, began)
        failpoints.hit("agent.volume.after")
        return self._created(context, volume)

    def _not_made(self, context: RequestContext, volume: Volume, failure: Exception, began: float) -> Volume:
        """Report the failure. Then remove what is on the pool, if the ledger has given this attempt up.

        In this order: a former life of the agent may have made the volume, and its report may still be under way. If it
        comes first, what is there is the volume.
        """
        leaves = self._may_be_there(volume, failure)
        reported = {**_failure(volume, failure, began), **({"leaves": True} if leaves else {})}
        answer = self._calls.failed(context, volume, self._backend.name, reported)
        if leaves and self._is_given_up(volume, answer):
            self._remove(volume)
        return answer

    def _may_be_there(self, volume: Volume, failure: Exception) -> bool:
        """Return True if the pool may have something that was made for this volume."""
        if isinstance(failure, FileExistsError):
            return False
        try:
            there = self._backend.driver.volumes()
        except Exception:
            return True
        return any((each.uuid, each.pool) == (volume.uuid, volume.acting[1]) for each in there)

    def _is_given_up(self, volume: Volume, answer: Volume) -> bool:
        """Return True if the volume has no claim any more on the pool that this step is about."""
        _backend, pool = volume.acting
        return pool not in answer.pools_on(self._backend.name) or answer.status == volume_states.DELETED

    def _created(self, context: RequestContext, volume: Volume) -> Volume | None:
        """Report the volume as made. Remove it if the conductor gave this attempt up, and its claim."""
        try:
            answer = self._calls.done(context, volume, self._backend.name)
        except errors.NotFound:
            return None
        if self._is_given_up(volume, answer):
            self._remove(volume)
            return None
        kind = "volume" if volume.snapshot_of is None else "snapshot"
        LOG.info("Made a %s of %d GiB on pool %s", kind, volume.size_gb, volume.acting[1])
        return answer

    def _receive(self, context: RequestContext, volume: Volume) -> Volume | None:
        began = time.monotonic()
        assert volume.held_pool is not None, "the ledger has given the volume its destination"
        try:
            failpoints.hit("agent.migrate.before")
            self._require_no_stray(volume, volume.held_pool)
            with self._backend.copying(volume):
                self._backend.driver.receive(volume, volume.held_pool)
        except Exception as failure:
            LOG.warning("Volume %s cannot migrate to pool %s: %s", volume.uuid, volume.held_pool, failure)
            return self._not_made(context, volume, failure, began)
        self._backend.adopt(volume.uuid)
        failpoints.hit("agent.migrate.after")
        return self._created(context, volume)

    def _require_no_stray(self, volume: Volume, pool: str) -> None:
        """Neither take for the copy, nor replace, what the pool has of a volume that the ledger does not know there.

        :raises FileExistsError:
        """
        if volume.old_copy or not self._backend.is_stray(volume.uuid):
            return
        if any((each.uuid, each.pool) == (volume.uuid, pool) for each in self._backend.driver.volumes()):
            raise FileExistsError(
                f"pool {pool} has data of this volume that the ledger does not know, older or newer than the volume: "
                "remove or rename them"
            )

    def _leave(self, context: RequestContext, volume: Volume) -> Volume | None:
        failpoints.hit("agent.leave.before")
        if not self._remove(volume):
            return None
        failpoints.hit("agent.leave.after")
        return self._calls.done(context, volume, self._backend.name)

    def _extend(self, context: RequestContext, volume: Volume) -> Volume | None:
        began = time.monotonic()
        try:
            failpoints.hit("agent.extend.before")
            self._backend.driver.extend(volume, volume.claimed_gb)
        except Exception as failure:
            size_gb = self._size_gb(volume)
            if size_gb is None or isinstance(failure, ExtensionUnfinished):
                # The sweeper repeats the order: the volume is not available before its size is certain.
                LOG.warning("Volume %s is neither extended nor as it was: %s", volume.uuid, failure)
                return None
            if size_gb != volume.claimed_gb:
                LOG.warning("Volume %s cannot be extended: %s", volume.uuid, failure)
                # An extension before this one may have been done, and its report lost.
                grown = {"size_gb": size_gb} if size_gb > volume.size_gb else {}
                reported = {**_failure(volume, failure, began), **grown}
                return self._calls.failed(context, volume, self._backend.name, reported)
            # An earlier try has extended it and lost its report. Then the ledger must get the new size.
            LOG.info("Volume %s has its new size already: %s", volume.uuid, failure)
        failpoints.hit("agent.extend.after")
        return self._calls.done(context, volume, self._backend.name)

    def _size_gb(self, volume: Volume) -> int | None:
        """Return the size that the data of a volume have; None if it cannot be read."""
        try:
            there = list(self._backend.driver.volumes())
        except Exception as failure:
            LOG.warning("Volume %s: its size cannot be read: %s", volume.uuid, failure)
            return None
        return next((each.size_gb for each in there if (each.uuid, each.pool) == (volume.uuid, volume.pool)), None)

    def _retype(self, context: RequestContext, volume: Volume) -> Volume | None:
        began = time.monotonic()
        try:
            failpoints.hit("agent.retype.before")
            self._backend.driver.retype(volume)
        except Exception as failure:
            LOG.warning("Volume %s cannot be retyped: %s", volume.uuid, failure)
            return self._calls.failed(context, volume, self._backend.name, _failure(volume, failure, began))
        failpoints.hit("agent.retype.after")
        return self._calls.done(context, volume, self._backend.name)

    def _manage(self, context: RequestContext, volume: Volume) -> Volume | None:
        """Read the size of what is to be managed; once the ledger has claimed it, make it the volume."""
        began = time.monotonic()
        assert volume.reference is not None, "the ledger has what is to be managed"
        assert volume.pool is not None, "the ledger has given the volume its pool"
        found = None
        try:
            failpoints.hit("agent.manage.before")
            if volume.claimed_gb:
                self._backend.driver.manage(volume)
            else:
                found = self._backend.driver.measure(volume.reference, volume.pool)
        except Exception as failure:
            LOG.warning("%s on pool %s cannot be managed: %s", volume.reference, volume.pool, failure)
            if not self._let_go(volume):
                return None
            return self._calls.failed(context, volume, self._backend.name, _failure(volume, failure, began))
        if found is not None:
            return self._calls.measured(context, volume, self._backend.name, found.size_gb, found.stored_gb)
        failpoints.hit("agent.manage.after")
        return self._calls.done(context, volume, self._backend.name)

    def _unmanage(self, context: RequestContext, volume: Volume) -> Volume | None:
        failpoints.hit("agent.unmanage.before")
        began = time.monotonic()
        try:
            if not self._let_go(volume):
                return None
        except errors.NotSupported as failure:
            LOG.warning("Volume %s stays a volume: %s", volume.uuid, failure)
            return self._calls.failed(context, volume, self._backend.name, _failure(volume, failure, began))
        failpoints.hit("agent.unmanage.after")
        return self._calls.done(context, volume, self._backend.name)

    def _let_go(self, volume: Volume) -> bool:
        """Take its name from a volume, whose data stay. Return whether it has none now.

        :raises errors.NotSupported: the driver keeps no data of volumes that go
        """
        assert volume.pool is not None, "the ledger has given the volume its pool"
        try:
            self._backend.driver.unmanage(volume.uuid, volume.pool)
        except errors.NotSupported:
            if volume.status != volume_states.MANAGING and volume.claimed_gb:
                raise
            # It has managed nothing.
        except Exception:
            LOG.exception("Volume %s keeps its name on pool %s", volume.uuid, volume.pool)
            return False
        return True

    def _delete(self, context: RequestContext, volume: Volume) -> Volume | None:
        # Otherwise the sweeper repeats the order: no other backend can delete it.
        return self._calls.done(context, volume, self._backend.name) if self._remove(volume) else None

    def _remove(self, volume: Volume) -> bool:
        """Remove the volume from the pool that this step is about. Return whether it is gone."""
        _backend, pool = volume.acting
        assert pool is not None, "the ledger has given the volume its pool"
        try:
            self._backend.driver.delete(volume.uuid, pool)
        except Exception:
            LOG.exception("Volume %s cannot be removed from pool %s", volume.uuid, pool)
            return False
        return True


def _failure(volume: Volume, failure: Exception, began: float) -> dict[str, object]:
    message = control_characters.lines(str(failure))[:_MOST_CHARACTERS] or type(failure).__name__
    duration_s = round(time.monotonic() - began, 3)
    return {"step": volume.status, "code": type(failure).__name__, "message": message, "duration_s": duration_s}
