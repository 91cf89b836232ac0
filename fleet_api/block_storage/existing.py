# SPDX-License-Identifier: Apache-2.0
"""Data that lie on a pool and are to become a volume.

They are the administrator's. Called by :mod:`fleet_api.block_storage.routes`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import falcon
from typing_extensions import TypedDict

from fleet import errors
from fleet.json_codec import JSONMapping
from fleet.objects import fields
from fleet.objects.answers import volumes as operator_answers
from fleet_api.block_storage import views
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import NotHere
from fleet_api.servers.servers import IDEMPOTENCY_KEY

#: Keys under which clients name the data. Each stands alone.
_REFERENCES = ("source-name", "source-id")


@dataclasses.dataclass(frozen=True)
class _Volume:
    __pydantic_config__ = bodies.STRICT

    host: fields.Name
    ref: dict[fields.Name, fields.Name]
    name: fields.Text | None = None
    description: fields.Text | None = None
    volume_type: fields.Name | None = None
    availability_zone: fields.Name | None = None
    metadata: fields.Metadata | None = None
    bootable: bool | None = None


Reference = TypedDict("Reference", {"source-name": str})


class BriefManageable(TypedDict):
    reference: Reference
    size: int
    safe_to_manage: bool


class Manageable(BriefManageable):
    reason_not_safe: str | None
    cinder_id: None
    extra_info: None


class ExistingVolumes:
    """``/os-volume-manage``, and from version 3.8 on ``/manageable_volumes``."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("volume:manage")
    @answers.gives(answers.Answer({"volume": views.VolumeShown}), 202)
    @bodies.takes(bodies.Body({"volume": _Volume}))
    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        """:raises errors.FleetError: naming the field; NotHere:"""
        asked = bodies.part(request, "volume", _Volume)
        for name, what in (("description", "A description of such a volume"), ("bootable", "Booting from a volume")):
            if getattr(asked, name):
                raise NotHere(what)
        given = {
            "name": asked.name,
            "volume_type": asked.volume_type,
            "availability_zone": asked.availability_zone,
            "metadata": asked.metadata,
        }
        wanted = {name: value for name, value in given.items() if value}
        wanted |= {"host": asked.host, "reference": _reference(asked.ref)}
        token = request.get_header(IDEMPOTENCY_KEY)
        named = {"client_token": token} if token else {}
        with bodies.naming("volume"):
            (made,) = self._conductor.operator(request).manage_volume(request=wanted, **named)["volumes"]
        shown = self._conductor.operator(request).show_volume(name=made["uuid"])
        response.media = {"volume": views.volume(request, shown)}
        response.status = falcon.HTTP_202

    @guard.by("volume:manage")
    @answers.gives(answers.Answer({"manageable-volumes": list[BriefManageable]}))
    @bodies.asks("host")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """List data of a pool, or of all pools of a backend, that are no volumes."""
        response.media = {"manageable-volumes": [_brief(each) for each in self._found(request)]}

    @guard.by("volume:manage")
    @answers.gives(answers.Answer({"manageable-volumes": list[Manageable]}))
    @bodies.asks("host")
    def on_get_detail(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = {"manageable-volumes": [_whole(each) for each in self._found(request)]}

    def _found(self, request: falcon.Request) -> list[operator_answers.Manageable]:
        host = request.get_param("host")
        if not host:
            raise errors.InvalidInput(field="host", reason="is required: machine@backend#pool, or machine@backend")
        return self._conductor.operator(request).list_manageable(host=host)


def _reference(given: Mapping[str, str]) -> str:
    """:raises errors.InvalidInput: it is not one of REFERENCES"""
    if len(given) != 1 or next(iter(given)) not in _REFERENCES:
        raise errors.InvalidInput(field="volume.ref", reason=f"must have one of {' and '.join(_REFERENCES)}")
    return next(iter(given.values()))


def _brief(found: JSONMapping) -> BriefManageable:
    reference: Reference = {"source-name": found["reference"]}
    return {"reference": reference, "size": found["size_gb"], "safe_to_manage": not found["reason"]}


def _whole(found: JSONMapping) -> Manageable:
    return {**_brief(found), "reason_not_safe": found["reason"] or None, "cinder_id": None, "extra_info": None}
