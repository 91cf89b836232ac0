# SPDX-License-Identifier: Apache-2.0
"""``POST /volumes``: what clients send, and the request for a volume that it becomes.

Called by :mod:`fleet_api.block_storage.volumes`.
"""

from __future__ import annotations

import dataclasses

import falcon

from fleet import errors
from fleet.json_codec import JSONObject
from fleet.objects import fields
from fleet.objects.volume import Size
from fleet_api.block_storage import views, volume_types
from fleet_api.requests import bodies
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import refuse_given
from fleet_api.servers.input import server_request


@dataclasses.dataclass(frozen=True)
class _Volume:
    """Fields of which the type is ``Any`` are refused if they are not empty."""

    __pydantic_config__ = bodies.STRICT

    size: Size | None = None
    name: fields.Text | None = None
    volume_type: fields.Name | None = None
    availability_zone: fields.Name | None = None
    metadata: fields.Metadata | None = None
    imageRef: fields.Text | None = None
    image_id: fields.Text | None = None
    snapshot_id: fields.Text | None = None
    source_volid: fields.Text | None = None
    description: fields.Text | None = None
    #: Names of old clients.
    display_name: fields.Text | None = None
    display_description: fields.Text | None = None
    consistencygroup_id: object = None
    group_id: object = None
    backup_id: object = None
    multiattach: object = None
    source_replica: object = None


BODY = bodies.Body({"volume": _Volume}, server_request.HINTS)
#: Field → what to call it when it is refused.
_NOT_HERE = {
    "consistencygroup_id": "A consistency group",
    "group_id": "A group of volumes",
    "backup_id": "A backup",
    "multiattach": "A volume for several servers",
    "source_replica": "A replica",
}


def parse(request: falcon.Request, conductor: Conductor) -> JSONObject:
    """Return the request for one volume. :raises errors.FleetError: naming the field; NotHere:"""
    asked = bodies.part(request, "volume", _Volume)
    refuse_given(asked, _NOT_HERE)
    image_id = asked.imageRef or asked.image_id
    origins = {"source": asked.source_volid, "snapshot": asked.snapshot_id, "image": image_id}
    wanted: JSONObject = {name: given for name, given in origins.items() if given}
    if len(wanted) > 1:
        raise errors.InvalidInput(field="volume", reason="may have one of source_volid, snapshot_id and imageRef")
    _require_origin(request, conductor, asked, image_id)
    named = volume_types.find(conductor, request, asked.volume_type).name if asked.volume_type else None
    given = {
        "size": asked.size,
        "name": asked.name or asked.display_name,
        "volume_type": named,
        "availability_zone": asked.availability_zone,
        "metadata": asked.metadata,
        "description": asked.description or asked.display_description,
        "scheduler_hints": server_request.hints(bodies.whole(request)),
    }
    return {**wanted, **{name: value for name, value in given.items() if value}}


def _require_origin(request: falcon.Request, conductor: Conductor, asked: _Volume, image_id: str | None) -> None:
    """:raises errors.NotFound: what the volume is to begin with is not there, or belongs to another project
    :raises errors.InvalidInput: no image has the id
    """
    if image_id:
        with bodies.naming("volume.imageRef"):
            conductor.image(request, image_id)
    for field, kind, method in (
        ("source_volid", "Volume", "show_volume"),
        ("snapshot_id", "Snapshot", "show_snapshot"),
    ):
        if uuid := getattr(asked, field):
            views.require_own(request, conductor.operator(request).call(method, name=uuid), kind, uuid)
