# SPDX-License-Identifier: Apache-2.0
"""Accepts requests for volumes, and writes their rows.

From then on the sweeper ends each volume that is lost. Called by the modules beside it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

from oslo_log import log as logging
from oslo_utils import units, uuidutils

from conductor_stub.steps import client_token
from conductor_stub.steps.client_token import accept_once
from conductor_stub.steps.group_commit import GroupCommit
from conductor_stub.steps.limits import StepContext
from conductor_stub.steps.local_placement import LocalPlacement
from conductor_stub.volumes import conditions, views
from conductor_stub.volumes.placement import VolumePlacement
from fleet import errors, failpoints, volume_states
from fleet.clock import seconds
from fleet.context import RequestContext
from fleet.db.catalog import images, quotas
from fleet.db.engine.database import Connection, Database, Transaction
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import volume_requests, volume_types, volumes
from fleet.json_codec import JSONObject
from fleet.objects import ImageRecord, VolumeImage, VolumeRequest, VolumeType, location
from fleet.objects.answers.volumes import Made
from fleet.objects.quota import NO_LIMITS, Quota
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)

FIRST_ATTEMPT = 1
#: Each volume of a request.
Answer = list[Made]


class ClientToken(client_token.ClientToken):
    """The token of a request for volumes."""

    def first_answer(self, connection: Transaction | Connection) -> Answer | None:
        """The volumes of the first request with this token; None if there was none.

        :raises errors.Conflict: that request was a different one
        """
        found = volume_requests.of_token(connection, self.project_id, self.token)
        if not found:
            return None
        self.require_same(found[0].fingerprint, f"volume {found[0].uuid}")
        return [{"uuid": row.uuid, "name": row.name} for row in found]


@dataclasses.dataclass(frozen=True)
class _Acceptance:
    """The rows of a request that is accepted."""

    rows: Sequence[JSONObject]
    token: ClientToken | None

    @property
    def uuid(self) -> str:
        """The uuid of the first volume, which stands for the request."""
        return str(self.rows[0]["uuid"])

    @property
    def source(self) -> JSONObject | None:
        """The volume or snapshot that all of them copy: see :class:`_Wanted`."""
        source: JSONObject | None = self.rows[0]["spec"].get("source")
        return source

    def key(self) -> Hashable:
        """Return a key that is equal for requests of which at most one may be written."""
        return self.token.key if self.token else self.uuid


class VolumeCreation:
    """``create_volumes``: validate, write the rows with their deadline, place them here or hand them out.

    :param local: threads of this process that place volumes; None: hand out all
    """

    def __init__(
        self,
        database: Database,
        placement: VolumePlacement,
        grouped: Callable[..., GroupCommit[Any, Any]] = GroupCommit,
        local: LocalPlacement | None = None,
        default_quota: Quota = NO_LIMITS,
    ) -> None:
        """:param grouped: makes a group commit; the simulation has its own, because it has no threads
        :param default_quota: of projects without one of their own
        """
        self._database = database
        self._placement = placement
        self._local = local or LocalPlacement(0)
        self._default_quota = default_quota
        self._writes: GroupCommit[_Acceptance, Answer | None] = grouped(self._write_all, key=_Acceptance.key)

    def _write_all(self, acceptances: Sequence[_Acceptance]) -> Sequence[Answer | None | errors.FleetError]:
        return self._database.write(_insert_all, acceptances, self._default_quota)

    def accept(self, context: RequestContext, asked: VolumeRequest, client_token: str | None = None) -> Answer:
        """Return ``uuid`` and ``name`` of each volume, after all are written.

        :raises errors.InvalidInput: errors.NotFound: errors.Conflict: errors.QuotaExceeded:
        """

        def rows(ctx: StepContext) -> list[JSONObject]:
            return _rows(context, asked, self._wanted(context, asked), ctx)

        return self.write_once(context, asked.to_wire(), rows, client_token)

    def write_once(
        self,
        context: RequestContext,
        asked: Mapping[str, object],
        make: Callable[[StepContext], list[JSONObject]],
        client_token: str | None,
    ) -> Answer:
        """Write the rows that ``make`` returns, and place them. A token that was used has its first answer.

        :param asked: the whole request; a later one with the same token must be equal
        :raises errors.Conflict: errors.QuotaExceeded: and what ``make`` raises
        """
        token = ClientToken.of(context, asked, client_token) if client_token else None

        def accept() -> Answer:
            return self._accept(context, make(self._placement.step_context(context)), token)

        return accept_once(self._database, token.first_answer if token else None, accept)

    def _accept(self, context: RequestContext, rows: list[JSONObject], token: ClientToken | None) -> Answer:
        with self._local.room() as start:
            if start is not None:
                rows = [{**row, "step": volume_states.PLACING} for row in rows]
            first = self._writes.write(_Acceptance(rows, token))
            if first is not None:
                return first
            metrics.VOLUMES_ACCEPTED.inc(len(rows))
            LOG.info("Accepted %d volumes of %d GiB, first %s", len(rows), rows[0]["size_gb"], rows[0]["uuid"])
            if start is not None:
                accepted = [volumes.accepted(row) for row in rows]
                self._placement.place_here(context, accepted, FIRST_ATTEMPT, start)
            else:
                self._hand_out(context, rows)
        return [{"uuid": row["uuid"], "name": row["name"]} for row in rows]

    def _hand_out(self, context: RequestContext, rows: Sequence[JSONObject]) -> None:
        for row in rows:
            about = context.about(volume=row["uuid"], attempt=FIRST_ATTEMPT)
            self._placement.hand_out(about, [row["uuid"]], FIRST_ATTEMPT)

    def _wanted(self, context: RequestContext, asked: VolumeRequest) -> _Wanted:
        if asked.volume_type or asked.source or asked.snapshot or asked.image:
            return self._database.read(_resolve, asked, context.scope)
        return _Wanted(_size_of(asked, None), None, None)


@failpoints.commits("conductor.volume_accept")
def _insert_all(
    tx: Transaction, acceptances: Sequence[_Acceptance], default: Quota
) -> list[Answer | None | errors.FleetError]:
    """Write the rows of each. Where an earlier request had the same token, return its answer instead of None.

    From now on each volume ends within ``volume_timeout``. A request above the quota of its project is refused alone.
    """
    volumes.lock_all(tx, [each.source["uuid"] for each in acceptances if each.source])
    projects, keys = [each.rows[0]["project_id"] for each in acceptances], [each.uuid for each in acceptances]
    # At once, because a statement between the rows of two requests would end the batch that is written.
    tokens = [each.token.key for each in acceptances if each.token]
    found = quotas.look(tx, quotas.STORAGE, projects, default, keys, tokens)
    return [_insert(tx, each, found) for each in acceptances]


def _insert(tx: Transaction, accepted: _Acceptance, found: quotas.Found) -> Answer | None | errors.FleetError:
    token = accepted.token
    try:
        first = token.first_answer(tx) if token and token.key in found.tokens else None
    except errors.Conflict as other:
        return other
    if accepted.uuid in found.keys:
        # An earlier commit of the same work has inserted them.
        return None
    if first is not None:
        return first
    try:
        if accepted.source is not None:
            _take_source(tx, accepted.source, [row["uuid"] for row in accepted.rows])
        asked = {"volumes": len(accepted.rows), "gigabytes": sum(row["size_gb"] for row in accepted.rows)}
        found.headroom.take(accepted.rows[0]["project_id"], **asked)
    except (errors.Conflict, errors.NotFound, errors.QuotaExceeded) as refused:
        return refused
    volumes.create(tx, accepted.rows)
    if token is not None:
        volume_requests.create(tx, [row["uuid"] for row in accepted.rows], token.columns())
    return None


def _take_source(tx: Transaction, source: JSONObject, uuids: Collection[str]) -> None:
    """No guest gets a volume while it is copied.

    :raises errors.NotFound: errors.Conflict: it has changed since it was read
    """
    row = volumes.lock(tx, source["uuid"])
    conditions.require_available(row)
    if location.append_host(row.host, row.pool) != source["host"]:
        raise errors.Conflict(kind="Volume", name=row.name, reason="has changed meanwhile: try again")
    if row.snapshot_of is None:
        volumes.note_copies(tx, row, uuids)


@dataclasses.dataclass(frozen=True)
class _Wanted:
    """A request to create a volume, with its defaults filled in.

    :param source: ``uuid`` and ``host`` (its location) of what is copied; ``is_snapshot``
    :param image: what a backend needs of the image
    :param is_bootable: what is copied can boot
    """

    size_gb: int
    volume_type: VolumeType | None
    source: JSONObject | None
    image: JSONObject | None = None
    is_bootable: bool = False


def _resolve(connection: Connection, asked: VolumeRequest, project: str | None) -> _Wanted:
    """:param project: whose types may be named; None: all. :raises errors.NotFound: errors.Conflict: errors.InvalidInput:"""
    named = volume_types.find(connection, asked.volume_type, project) if asked.volume_type else None
    _require_one_origin(asked)
    source = _source_of(connection, asked)
    if source is None:
        image = images.find(connection, asked.image) if asked.image else None
        return _Wanted(_size_of(asked, image), named, None, _to_be_read(image) if image else None)
    conditions.require_available(source)
    size_gb = asked.size or source.size_gb
    if size_gb < source.size_gb:
        raise errors.InvalidInput(
            field="request.size", reason=f"must be at least that of the source, {source.size_gb} GiB, got {size_gb}"
        )
    where = {
        "uuid": source.uuid,
        "host": location.append_host(source.host, source.pool),
        "is_snapshot": source.snapshot_of is not None,
    }
    return _Wanted(size_gb, named or volumes.type_of(source), where, is_bootable=views.is_bootable(source))


def _require_one_origin(asked: VolumeRequest) -> None:
    """:raises errors.InvalidInput:"""
    first, *others = [name for name in ("source", "snapshot", "image") if getattr(asked, name)] or [""]
    if others:
        raise errors.InvalidInput(field=f"request.{others[0]}", reason=f"cannot be given together with {first}")


def _size_of(asked: VolumeRequest, image: ImageRecord | None) -> int:
    """:raises errors.InvalidInput: there is none, or the image needs more"""
    least = max(image.min_disk, -(-image.size // units.Gi)) if image else 0
    if asked.size is None and not least:
        reason = "is required, unless a source, a snapshot or an image of a known size is named"
        raise errors.InvalidInput(field="request.size", reason=reason)
    size_gb = asked.size or least
    if size_gb < least:
        reason = f"must be at least what the image needs, {least} GiB, got {size_gb}"
        raise errors.InvalidInput(field="request.size", reason=reason)
    return size_gb


def _to_be_read(image: ImageRecord) -> JSONObject:
    return {each.name: getattr(image, each.name) for each in dataclasses.fields(VolumeImage)}


def _source_of(connection: Connection, asked: VolumeRequest) -> VolumeRow | None:
    """The row of the volume or snapshot that is copied. :raises errors.NotFound: errors.Conflict:"""
    if asked.snapshot:
        return volumes.find(connection, asked.snapshot, "Snapshot")
    return volumes.find(connection, asked.source) if asked.source else None


def _rows(context: RequestContext, asked: VolumeRequest, wanted: _Wanted, ctx: StepContext) -> list[JSONObject]:
    deadline = ctx.now + seconds(ctx.limits.volume_timeout_s)
    spec = {
        "volume_type": wanted.volume_type and wanted.volume_type.to_wire(),
        "source": wanted.source,
        "image": wanted.image,
        "scheduler_hints": asked.scheduler_hints,
        "metadata": asked.metadata,
        **({"description": asked.description} if asked.description else {}),
        **({"bootable": True} if wanted.is_bootable else {}),
    }
    shared = {
        "project_id": context.project_id,
        "user_id": context.user_id,
        "size_gb": wanted.size_gb,
        "status": volume_states.CREATING,
        "step": volume_states.SCHEDULING,
        "attempt": FIRST_ATTEMPT,
        "availability_zone": asked.availability_zone,
        "volume_type": wanted.volume_type and wanted.volume_type.name,
        "spec": spec,
        "plan": {},
        "deadline": deadline,
        # The cast that follows may be lost: the sweeper then hands the volume out again.
        "step_deadline": ctx.due(ctx.limits.placing_timeout_s, deadline),
        "request_id": context.request_id,
        "created_at": ctx.now,
    }
    # Lists have volumes of the same time by uuid: those of one request are in the order of their numbers.
    uuids = sorted(uuidutils.generate_uuid() for _ in range(asked.count))
    return [{**shared, "uuid": uuid, "name": _name(asked, uuid, index)} for index, uuid in enumerate(uuids)]


def _name(asked: VolumeRequest, uuid: str, index: int) -> str:
    if not asked.name:
        return f"volume-{uuid[:8]}"
    return asked.name if asked.count == 1 else f"{asked.name[:250]}-{index + 1}"
