# SPDX-License-Identifier: Apache-2.0
"""Takes existing data of a pool into management as a volume, and releases volumes from management.

:mod:`conductor_stub.volumes.wiring` offers it to users.
"""

from __future__ import annotations

import oslo_messaging
from oslo_log import log as logging
from oslo_utils import uuidutils

from conductor_stub.steps.acts import Acts
from conductor_stub.steps.limits import StepContext
from conductor_stub.volumes import claims, deletion, views
from conductor_stub.volumes.creation import FIRST_ATTEMPT, VolumeCreation
from conductor_stub.volumes.placement import VolumePlacement
from fleet import errors, volume_states
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database
from fleet.db.hosts import services
from fleet.db.volumes import pools, volume_types, volumes
from fleet.json_codec import JSONObject
from fleet.objects import ManageRequest, VolumeType, fields, location, request_keys
from fleet.objects.answers.volumes import MadeVolumes, Manageable, VolumeView
from fleet.rpc.clients import VolumeAPI
from fleet.rpc.endpoint import endpoint, require_size, served

LOG = logging.getLogger(__name__)


class ExistingIntake:
    """The RPC surface of the namespace ``operator`` for data that fleet has not made."""

    target = served("conductor", "operator")

    def __init__(
        self, database: Database, placement: VolumePlacement, creation: VolumeCreation, backends: VolumeAPI
    ) -> None:
        self._database = database
        self._placement = placement
        self._acts = Acts(database, placement.now)
        self._creation = creation
        self._backends = backends

    @endpoint
    def manage_volume(
        self, context: RequestContext, request: JSONObject, client_token: fields.Token | None = None
    ) -> MadeVolumes:
        """Return as ``create_volumes`` does. Whether the reference can be managed, its backend finds out.

        :raises errors.InvalidInput:
        :raises errors.NotFound: the pool, or the volume type
        :raises errors.Conflict: the token was used for another request
        :raises errors.QuotaExceeded:
        """
        require_size(request, "request")
        warnings = request_keys.unknown(request, ManageRequest, "request")
        asked = ManageRequest.from_wire(request)

        def row(ctx: StepContext) -> list[JSONObject]:
            return [_row(context, asked, *self._database.read(_resolve, asked), ctx)]

        made = self._creation.write_once(context, asked.to_wire(), row, client_token)
        return {"volumes": made, "warnings": warnings}

    @endpoint
    def unmanage_volume(self, context: RequestContext, name: fields.Name) -> VolumeView:
        """Remove a volume from the ledger. Its data stay on their pool.

        :raises errors.NotFound: errors.Conflict: several volumes match, or it is not available, or has snapshots
        """
        found = self._database.read(volumes.find, name)
        subject, shown = f"{found.name} ({found.uuid})", claims.state_of(found.uuid)
        ctx = self._placement.step_context(context)
        row = self._acts.write(context, "volume.unmanage", subject, shown, deletion.begin_unmanaging, found.uuid, ctx)
        LOG.info("Volume %s is managed no longer", row.name)
        self._placement.notify(context.about(volume=row.uuid, attempt=row.attempt, host=row.host), row)
        return views.of_volume(row)

    @endpoint
    def list_manageable(self, context: RequestContext, host: fields.Name) -> list[Manageable]:
        """Return the data on a backend or a pool that are no volume: ``pool``, ``reference``, ``size_gb``, ``reason``.

        :param host: ``machine@backend#pool``, or without the pool
        :raises errors.NotFound: nothing has this name
        :raises errors.ServiceDown: the agent of the backend does not answer
        :raises errors.NotSupported: its driver takes over no volumes
        :raises errors.VersionPinned: the agent is too old
        """
        there = self._database.read(pools.named, host)
        backend = there[0].host
        try:
            found = self._backends.get_manageable(context, backend)
        except (oslo_messaging.MessagingException, oslo_messaging.MessageUndeliverable) as silence:
            reason = f"it does not answer ({type(silence).__name__})"
            raise errors.ServiceDown(binary=services.VOLUME, host=backend, reason=reason) from None
        names = {row.pool for row in there}
        return [
            {**each, "pool": location.append_host(backend, each["pool"])} for each in found if each["pool"] in names
        ]


def _resolve(connection: Connection, asked: ManageRequest) -> tuple[str, VolumeType | None]:
    """The pool's location, and the type. :raises errors.NotFound: errors.InvalidInput: the backend has several pools"""
    there = pools.named(connection, asked.host)
    if len(there) > 1:
        names = ", ".join(row.pool for row in there)
        raise errors.InvalidInput(field="request.host", reason=f"must name one of the pools {names}, got {asked.host}")
    where = location.append_host(there[0].host, there[0].pool)
    return where, volume_types.find(connection, asked.volume_type) if asked.volume_type else None


def _row(
    context: RequestContext, asked: ManageRequest, where: str, volume_type: VolumeType | None, ctx: StepContext
) -> JSONObject:
    """The volume as it is accepted. Its size is 0 until its backend has read it."""
    uuid = uuidutils.generate_uuid()
    return {
        "uuid": uuid,
        "name": asked.name or f"volume-{uuid[:8]}",
        "project_id": context.project_id,
        "user_id": context.user_id,
        "size_gb": 0,
        **claims.begun(volume_states.MANAGING, volume_states.SCHEDULING, ctx),
        "attempt": FIRST_ATTEMPT,
        "availability_zone": asked.availability_zone,
        "volume_type": volume_type and volume_type.name,
        "spec": {
            "volume_type": volume_type and volume_type.to_wire(),
            "reference": asked.reference,
            "metadata": asked.metadata,
        },
        "plan": {"to": where},
        "request_id": context.request_id,
        "created_at": ctx.now,
    }
