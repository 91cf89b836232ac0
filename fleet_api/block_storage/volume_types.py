# SPDX-License-Identifier: Apache-2.0
"""Volume types and their extra specs. All are public."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, NotRequired

import falcon
from typing_extensions import TypedDict

from fleet import errors
from fleet.objects import VolumeType, fields
from fleet_api.access import identity, policies
from fleet_api.block_storage import views
from fleet_api.requests import answers, bodies, paging
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import Fault, NotHere


@dataclasses.dataclass(frozen=True)
class _Wanted:
    __pydantic_config__ = bodies.STRICT

    name: fields.Name
    description: fields.Text | None = None
    extra_specs: fields.Texts = dataclasses.field(default_factory=dict)
    is_public: Any = None


_TypeShown = TypedDict(
    "_TypeShown",
    {
        "id": str,
        "name": str,
        "description": str | None,
        "is_public": bool,
        "os-volume-type-access:is_public": bool,
        "qos_specs_id": None,
        "extra_specs": NotRequired[Annotated[dict[str, str], views.OF_ALL]],
    },
)
_ONE, _SPECS = answers.Answer({"volume_type": _TypeShown}), answers.Answer({"extra_specs": dict[str, str]})


class VolumeTypes:
    """:param most: most types in one answer"""

    def __init__(self, conductor: Conductor, most: int) -> None:
        self._conductor = conductor
        self._most = most

    @answers.gives(answers.Answer({"volume_types": list[_TypeShown]}))
    @bodies.asks("limit", "marker")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        found = _all(self._conductor, request)
        part, _ = paging.cut(request, found, [str(each.id) for each in found], self._most)
        response.media = {"volume_types": [_view(request, each) for each in part]}

    @answers.gives(_ONE)
    @bodies.takes(bodies.Body({"volume_type": _Wanted}))
    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        asked = bodies.part(request, "volume_type", _Wanted)
        if asked.is_public is False:
            raise NotHere("A volume type that is not public")
        wanted = {"name": asked.name, "extra_specs": asked.extra_specs, "description": asked.description or ""}
        made = self._conductor.operator(request).create_volume_type(volume_type=wanted)
        response.media = {"volume_type": _view(request, VolumeType.from_wire(made))}

    @answers.gives(_ONE)
    def on_get_one(self, request: falcon.Request, response: falcon.Response, type_id: str) -> None:
        response.media = {"volume_type": _view(request, self._by_id(request, type_id))}

    @answers.gives(answers.NOTHING, 202)
    def on_delete_one(self, request: falcon.Request, response: falcon.Response, type_id: str) -> None:
        self._conductor.operator(request).delete_volume_type(name=self._by_id(request, type_id).name)
        response.status = falcon.HTTP_202

    @answers.gives(_SPECS)
    def on_get_extra_specs(self, request: falcon.Request, response: falcon.Response, type_id: str) -> None:
        response.media = {"extra_specs": self._by_id(request, type_id).extra_specs}

    @answers.gives(_SPECS)
    @bodies.takes(bodies.Body({"extra_specs": fields.Texts}))
    def on_post_extra_specs(self, request: falcon.Request, response: falcon.Response, type_id: str) -> None:
        name = self._by_id(request, type_id).name
        given = bodies.part(request, "extra_specs", fields.Texts)
        self._conductor.operator(request).update_volume_type(name=name, extra_specs=given)
        response.media = {"extra_specs": given}

    @answers.gives(answers.NOTHING, 202)
    def on_delete_extra_spec(self, request: falcon.Request, response: falcon.Response, type_id: str, key: str) -> None:
        known = self._by_id(request, type_id)
        if key not in known.extra_specs:
            raise Fault(404, f"Volume type {known.name} has no extra spec {key[:100]}.")
        self._conductor.operator(request).update_volume_type(name=known.name, extra_specs={key: None})
        response.status = falcon.HTTP_202

    def _by_id(self, request: falcon.Request, type_id: str) -> VolumeType:
        """By id only: clients look for a name in the list. :raises errors.NotFound:"""
        found = next((each for each in _all(self._conductor, request) if str(each.id) == type_id), None)
        if found is None:
            raise errors.NotFound(kind="Volume type", name=type_id)
        return found


def find(conductor: Conductor, request: falcon.Request, name: str) -> VolumeType:
    """By id or name. :raises errors.NotFound:"""
    found = next((each for each in _all(conductor, request) if name in (str(each.id), each.name)), None)
    if found is None:
        raise errors.NotFound(kind="Volume type", name=name)
    return found


def _all(conductor: Conductor, request: falcon.Request) -> list[VolumeType]:
    return [VolumeType.from_wire(each) for each in conductor.operator(request).list_volume_types()]


def _view(request: falcon.Request, known: VolumeType) -> _TypeShown:
    """Extra specs name backends: they are the administrator's."""
    shown: _TypeShown = {
        "id": str(known.id),
        "name": known.name,
        "description": known.description or None,
        "is_public": True,
        "os-volume-type-access:is_public": True,
        "qos_specs_id": None,
    }
    if identity.allows(request, policies.ALL_VOLUMES):
        shown["extra_specs"] = known.extra_specs
    return shown
