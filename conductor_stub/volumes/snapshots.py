# SPDX-License-Identifier: Apache-2.0
"""Accepts users' requests about snapshots.

Called by :mod:`conductor_stub.volumes.wiring`. A snapshot is a row of ``volumes`` on the pool of its volume, which it
claims space of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oslo_log import log as logging
from oslo_utils import uuidutils

from conductor_stub.steps.acts import Acts
from conductor_stub.steps.limits import StepContext
from conductor_stub.volumes import claims, conditions, deletion, listing, views
from conductor_stub.volumes.placement import VolumePlacement
from fleet import errors, failpoints, volume_states
from fleet.clock import seconds
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database, Transaction
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import pools, volumes
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import VolumeChanges, fields, location, uuid_like
from fleet.objects.answers.volumes import SnapshotView
from fleet.rpc.endpoint import endpoint, require_size, served

LOG = logging.getLogger(__name__)


class SnapshotIntake:
    """The RPC surface of the namespace ``operator`` for snapshots."""

    target = served("conductor", "operator")

    def __init__(self, database: Database, placement: VolumePlacement) -> None:
        self._database = database
        self._placement = placement
        self._acts = Acts(database, placement.now)

    @endpoint
    def create_snapshot(
        self,
        context: RequestContext,
        volume: fields.Name,
        name: uuid_like.GivenText = "",
        metadata: fields.Metadata | None = None,
        description: fields.Text = "",
    ) -> SnapshotView:
        """:raises errors.NotFound: errors.Conflict: errors.PoolSpaceUnavailable:"""
        fields.require_small(metadata or {}, "metadata")
        found = self._database.read(volumes.find, volume)
        uuid = uuidutils.generate_uuid()
        asked = {
            "uuid": uuid,
            "name": name or f"snapshot-{uuid[:8]}",
            "project_id": context.project_id,
            "user_id": context.user_id,
        }
        ctx = self._placement.step_context(context)
        said = {"metadata": metadata or {}, "description": description}
        row = self._database.write(create, found.uuid, asked, said, ctx)
        LOG.info("Making snapshot %s of volume %s", row.name, found.name)
        self._placement.notify(context.about(volume=row.uuid, attempt=row.attempt, host=row.host), row)
        return views.of_snapshot(row)

    @endpoint
    def list_snapshots(
        self,
        context: RequestContext,
        filters: JSONObject | None = None,
        limit: fields.Positive | None = None,
        marker: fields.Uuid | None = None,
    ) -> list[SnapshotView]:
        """The parameters are those of ``list_volumes``. :raises errors.InvalidInput: errors.NotFound:"""
        volumes.require_known(filters)

        def shown(_connection: Connection, rows: Sequence[VolumeRow]) -> list[SnapshotView]:
            return [views.of_snapshot(row) for row in rows]

        return self._database.read(listing.read, "Snapshot", filters or {}, limit, marker, shown)

    @endpoint
    def show_snapshot(self, context: RequestContext, name: fields.Name) -> SnapshotView:
        """:raises errors.NotFound: errors.Conflict: several snapshots match"""
        return views.of_snapshot(self._database.read(volumes.find, name, "Snapshot"))

    @endpoint
    def update_snapshot(self, context: RequestContext, name: fields.Name, changes: JSONObject) -> SnapshotView:
        """Change name, description and metadata. :param changes: a VolumeChanges

        :raises errors.NotFound: errors.Conflict: several snapshots match; errors.InvalidInput:
        """
        require_size(changes, "changes")
        wanted = VolumeChanges.from_wire(changes)

        def change(tx: Transaction) -> VolumeRow:
            row = volumes.lock(tx, found.uuid)
            if row.deleted:
                raise errors.NotFound(kind="Snapshot", name=name)
            details = wanted.details({"metadata": row.spec.get("metadata", {})})
            return volumes.note(tx, row, name=wanted.name or row.name, spec={**row.spec, **details})

        found = self._database.read(volumes.find, name, "Snapshot")
        return views.of_snapshot(self._database.write(change))

    @endpoint
    def delete_snapshot(self, context: RequestContext, name: fields.Name) -> SnapshotView:
        """Delete a snapshot in any status. :raises errors.NotFound: errors.Conflict: several snapshots match"""
        found = self._database.read(volumes.find, name, "Snapshot")
        subject, shown = f"{found.name} ({found.uuid})", claims.state_of(found.uuid)
        ctx = self._placement.step_context(context)
        row = self._acts.write(context, "snapshot.delete", subject, shown, deletion.begin_deletion, found.uuid, ctx)
        LOG.info("Deleting snapshot %s", row.name)
        self._placement.notify(context.about(volume=row.uuid, attempt=row.attempt, host=row.host), row)
        return views.of_snapshot(row)


@failpoints.commits("conductor.snapshot")
def create(tx: Transaction, of: str, asked: JSONMapping, said: Mapping[str, object], ctx: StepContext) -> VolumeRow:
    """Add a snapshot, whose space is claimed on the pool of its volume.

    :param said: the user's ``metadata`` and ``description``
    :raises errors.NotFound: errors.Conflict: the volume is not available
    :raises errors.PoolSpaceUnavailable: the pool has no room for it
    :raises errors.QuotaExceeded:
    """
    known = volumes.lock_all(tx, [asked["uuid"]])
    if known:
        # The commit was repeated.
        return known[0]
    volume = volumes.lock(tx, of)
    conditions.require_available(volume)
    claims.take_gigabytes(tx, asked["project_id"], volume.size_gb, ctx)
    pools.claim(tx, *volumes.place_of(volume), claims.request_of(volume, volume.size_gb), ctx.now, volumes=0)
    where = {"uuid": volume.uuid, "host": location.append_host(volume.host, volume.pool)}
    deadline = ctx.now + seconds(ctx.limits.volume_timeout_s)
    row = {
        **asked,
        "snapshot_of": volume.uuid,
        "size_gb": volume.size_gb,
        "status": volume_states.CREATING,
        "step": volume_states.WORKING,
        "attempt": 1,
        "host": volume.host,
        "pool": volume.pool,
        "claimed_gb": volume.size_gb,
        "volume_type": volume.volume_type,
        "spec": {
            "volume_type": volume.spec.get("volume_type"),
            "source": where,
            "bootable": views.is_bootable(volume),
            **said,
        },
        "plan": {},
        "deadline": deadline,
        "step_deadline": ctx.due(ctx.limits.placing_timeout_s, deadline),
        "request_id": ctx.request_id,
        "created_at": ctx.now,
    }
    volumes.create(tx, [row])
    return volumes.get(tx, row["uuid"])
