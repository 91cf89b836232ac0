# SPDX-License-Identifier: Apache-2.0
"""Volumes of instances that are built with them: reserved in the transaction that accepts the build.

Called by :mod:`conductor_stub.wiring`.
"""

from __future__ import annotations

from collections.abc import Sequence

from oslo_utils import uuidutils

from conductor_stub.attachments import machine
from conductor_stub.attachments.connections import connection_of
from conductor_stub.builds.reserving import Reserved
from conductor_stub.steps import devices
from conductor_stub.volumes import conditions
from fleet import errors, volume_states
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database, Transaction
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import attachments, volumes
from fleet.json_codec import JSONObject
from fleet.objects import BlockDevice, Flavor
from fleet.rpc.clients import ComputeAPI, VolumeAPI


class Reservations:
    """Implements :class:`conductor_stub.builds.reserving.Reserving`."""

    def __init__(self, database: Database, compute: ComputeAPI, backends: VolumeAPI) -> None:
        self._database = database
        self._compute = compute
        self._backends = backends

    def plan(self, context: RequestContext, wanted: Sequence[BlockDevice], flavor: Flavor) -> list[Reserved]:
        self._compute.require_volumes()

        def read(connection: Connection) -> list[VolumeRow]:
            return [volumes.find(connection, each.volume_id) for each in wanted]

        found = self._database.read(read)
        if len({row.uuid for row in found}) < len(found):
            raise errors.InvalidInput(field="request.block_device_mapping", reason="names a volume twice")
        for row in found:
            conditions.require_settled(row)
        names = _devices(wanted, flavor)
        return [
            Reserved(row, name, connection_of(self._backends, context, row))
            for row, name in zip(found, names, strict=True)
        ]

    def require(self, tx: Transaction, planned: Sequence[Reserved]) -> None:
        for each in planned:
            row = volumes.lock(tx, each.seen.uuid)
            conditions.require_settled(row)
            conditions.require_not_copied(tx, row)
            conditions.require_unchanged(row, each.seen)

    def write(self, tx: Transaction, planned: Sequence[Reserved], instance: JSONObject) -> None:
        for each in planned:
            reserved = {
                "uuid": uuidutils.generate_uuid(),
                "volume_uuid": each.seen.uuid,
                "instance_uuid": instance["uuid"],
                "device": each.device,
                "status": volume_states.RESERVED,
                "attempt": machine.FIRST_ATTEMPT,
                "connection": each.where.to_wire(),
                "deadline": None,
                "step_deadline": None,
                "request_id": instance["request_id"],
                "created_at": instance["created_at"],
            }
            tx.defer_insert(attachments.ATTACHMENTS, reserved)
            row, now = volumes.lock(tx, each.seen.uuid), instance["created_at"]
            volumes.write(tx, row, now, status=volume_states.RESERVED, failure=None)


def _devices(wanted: Sequence[BlockDevice], flavor: Flavor) -> list[str]:
    """The name of each disk: first come those that the request names. :raises errors.InvalidInput:"""
    field = "request.block_device_mapping"
    named = [devices.plain(each.device_name) for each in wanted if each.device_name]
    free = devices.free(flavor.ephemeral_gb, flavor.swap, named)
    if len(free) < len(wanted) - len(named):
        raise errors.InvalidInput(
            field=field, reason=f"has {len(wanted)} volumes, and this guest can have {len(free) + len(named)}"
        )
    for name in named:
        if named.count(name) > 1 or name in devices.own(flavor.ephemeral_gb, flavor.swap):
            raise errors.InvalidInput(
                field=f"{field}.device_name", reason=f"is {name}, which is the name of another disk"
            )
    return [devices.plain(each.device_name) if each.device_name else free.pop(0) for each in wanted]
