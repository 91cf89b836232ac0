# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of one storage backend: receives orders, returns at once, and does the work in the backend's queues.

Called by :mod:`volume_agent.agent` and :mod:`volume_agent.main`.
"""

from __future__ import annotations

import functools

from oslo_log import log as logging

from fleet import errors
from fleet.agent.work_queues import WorkQueues
from fleet.context import RequestContext
from fleet.objects import fields
from fleet.rpc.endpoint import endpoint, internal, served
from volume_agent.work.volume import VolumeWorker

LOG = logging.getLogger(__name__)


class BackendManager:
    """Topic ``volume``, server ``machine@backend``. Orders are casts: a bad order is one line in the log."""

    target = served("volume")

    def __init__(self, worker: VolumeWorker, queues: WorkQueues) -> None:
        self._worker = worker
        self._queues = queues

    def advance_volume(self, context: RequestContext, volume_uuid: object = None, **_unknown: object) -> None:
        """Read the volume's row and do this backend's part."""
        try:
            uuid = fields.parse(fields.Uuid, volume_uuid, "volume_uuid")
        except errors.InvalidInput as invalid:
            LOG.error("Dropping an order about a volume: %s", invalid.message)
            return
        self.order(context, uuid)

    @endpoint
    def get_manageable(self, context: RequestContext) -> list[dict[str, object]]:
        """Return what may become a volume: ``pool``, ``reference``, ``size_gb``, ``reason`` (why it cannot).

        :raises errors.NotSupported: the driver takes over no volumes
        :raises errors.ServiceDown: the backend cannot be used now
        """
        return self._worker.manageable()

    @endpoint
    def get_connection(self, context: RequestContext, volume_uuid: fields.Uuid, pool: fields.Name) -> dict[str, object]:
        """Return where the data of a volume are: ``kind``, ``path``, ``format``.

        :raises errors.NotFound: the volume is not on this pool
        :raises errors.NotSupported: volumes of the driver cannot be attached
        :raises errors.ServiceDown: the backend cannot be used now
        """
        return self._worker.connection(volume_uuid, pool).to_wire()

    @internal
    def order(self, context: RequestContext, uuid: str) -> None:
        """Queue the work on a volume. An order that is repeated while one waits is not queued again."""
        self._queues.submit(uuid, functools.partial(self._worker.run, context, uuid), once="order")
