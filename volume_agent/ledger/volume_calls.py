# SPDX-License-Identifier: Apache-2.0
"""Calls to the conductor for volumes.

Called by :mod:`volume_agent.work.volume` and :mod:`volume_agent.work.recovery`. Each is repeated until it is
answered, and safe to repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from oslo_log import log as logging

from fleet import errors
from fleet.agent.batching import Batcher
from fleet.agent.patience import Answer, P, Patience
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import Volume
from fleet.rpc.clients import VolumeTaskAPI

LOG = logging.getLogger(__name__)

#: Seconds for which a report is repeated. After that the conductor's sweeper repeats the order.
LIMIT_S = 60
#: Volumes in one answer. Users choose how much metadata each has, and a broker carries no more than 16 MiB.
_PART = 200
#: The client's method for several calls in one message.
SEVERAL = "volume_steps"


def _readable(data: JSONObject) -> Volume | None:
    """Return the volume; None, after a line in the log, if this release cannot read it."""
    try:
        return Volume.from_wire(data)
    except errors.InvalidInput as unreadable:
        LOG.error("Volume %s cannot be read, and stays as it is: %s", data["uuid"], unreadable.message)
        return None


class VolumeCalls:
    """All raise ``patience.Unanswered``.

    One object for all backends of a process, so that what its volumes ask and report goes in batches.
    """

    def __init__(
        self, conductor: VolumeTaskAPI, patience: Patience, limit_s: float = LIMIT_S, batcher: Batcher | None = None
    ) -> None:
        self._conductor = conductor
        self._batcher = batcher or Batcher(conductor, several=SEVERAL)
        self._patience = patience
        self._limit_s = limit_s

    def of_host(self, context: RequestContext, host: str) -> dict[str, Volume]:
        """Return the volumes of a backend, by uuid; repeated without a limit. One that cannot be read is left out."""
        found: dict[str, Volume | None] = {}
        marker = None
        while True:
            part = self._patience.call(None, self._conductor.get_host_volumes, context, host, None, _PART, marker)
            new = [each for each in part if each["uuid"] not in found]
            found.update({each["uuid"]: _readable(each) for each in new})
            # An older conductor returns all of them, each time.
            if len(part) != _PART or not new:
                return {uuid: volume for uuid, volume in found.items() if volume is not None}
            marker = part[-1]["uuid"]

    def find(self, context: RequestContext, host: str, uuid: str) -> Volume | None:
        """Return the volume, if the ledger has it on this backend."""
        answer = self._step(context, "get_host_volumes", host=host, volume_uuids=[uuid])
        return Volume.from_wire(answer[0]) if answer else None

    def removable(self, context: RequestContext, host: str, uuids: Collection[str], pool: str) -> list[str]:
        """Return those that may be removed from a pool; repeated without a limit.

        The ledger has deleted them, or has them on another backend and knows that they have left data on the pool.
        """
        return self._patience.call(None, self._conductor.get_removable_volumes, context, host, sorted(uuids), pool)

    def done(self, context: RequestContext, volume: Volume, host: str) -> Volume:
        """The backend has done its part of the volume's status. Return the volume as it is then."""
        place = {"volume_uuid": volume.uuid, "attempt": volume.attempt, "host": host, "status": volume.status}
        return Volume.from_wire(self._step(context, "volume_done", **place))

    def measured(self, context: RequestContext, volume: Volume, host: str, size_gb: int, stored_gb: int) -> Volume:
        """Claim the space of data that are to become a volume. Return the volume as it is then, refused or not."""
        place = (volume.uuid, volume.attempt, host, size_gb, stored_gb)
        return Volume.from_wire(self._ask(self._conductor.volume_measured, context, *place))

    def failed(self, context: RequestContext, volume: Volume, host: str, failure: JSONObject) -> Volume:
        """The backend cannot do its part of the volume's status. Return the volume as it is then."""
        place = (volume.uuid, volume.attempt, host, volume.status, failure)
        return Volume.from_wire(self._ask(self._conductor.volume_failed, context, *place))

    def _step(self, context: RequestContext, method: str, **arguments: object) -> Any:
        """A call that may go with others in one message."""
        step = self._batcher.step(context, method, **arguments)
        return self._patience.until_answered(method, step.ask, self._limit_s)

    def _ask(self, call: Callable[P, Answer], *args: P.args, **kwargs: P.kwargs) -> Answer:
        return self._patience.call(self._limit_s, call, *args, **kwargs)
