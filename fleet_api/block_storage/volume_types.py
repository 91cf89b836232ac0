# SPDX-License-Identifier: Apache-2.0
"""Volume types, their extra specs, and the projects that may use those that are not public.

:mod:`fleet_api.block_storage.routes` names its paths.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, NotRequired

import falcon
import pydantic
from typing_extensions import TypedDict

from fleet import errors
from fleet.json_codec import JSONObject
from fleet.objects import VolumeType, fields
from fleet_api.access import identity, rules
from fleet_api.block_storage import views
from fleet_api.requests import answers, bodies, guard, paging
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import Fault


@dataclasses.dataclass(frozen=True)
class _Wanted:
    __pydantic_config__ = bodies.STRICT

    name: fields.Name
    description: fields.Text | None = None
    extra_specs: fields.Texts = dataclasses.field(default_factory=dict)
    is_public: fields.Flag | None = None
    #: Of clients that send it beside ``is_public``.
    access: Annotated[fields.Flag | None, pydantic.Field(validation_alias="os-volume-type-access:is_public")] = None


@dataclasses.dataclass(frozen=True)
class _Change:
    __pydantic_config__ = bodies.STRICT

    name: fields.Name | None = None
    description: fields.Text | None = None
    is_public: fields.Flag | None = None


_TypeShown = TypedDict(
    "_TypeShown",
    {
        "id": str,
        "name": str,
        "description": str | None,
        "is_public": bool,
        "os-volume-type-access:is_public": NotRequired[bool],
        "qos_specs_id": NotRequired[None],
        "extra_specs": NotRequired[Annotated[dict[str, str], views.OF_ALL]],
    },
)
_ONE, _SPECS = answers.Answer({"volume_type": _TypeShown}), answers.Answer({"extra_specs": dict[str, str]})


@dataclasses.dataclass(frozen=True)
class _Project:
    __pydantic_config__ = bodies.STRICT

    project: fields.Name


class Access(TypedDict):
    volume_type_id: str
    project_id: str


_ACTIONS = {"addProjectAccess": _Project, "removeProjectAccess": _Project}


class VolumeTypes:
    """:param most: most types in one answer"""

    def __init__(self, conductor: Conductor, most: int) -> None:
        self._conductor = conductor
        self._most = most

    @guard.by("volume:get")
    @answers.gives(answers.Answer({"volume_types": list[_TypeShown]}))
    @bodies.asks("limit", "marker", "is_public", "sort", "sort_key", "sort_dir")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        found = [each for each in _all(self._conductor, request) if _is_asked(request, each)]
        part, _ = paging.cut(request, found, [str(each.id) for each in found], self._most)
        response.media = {"volume_types": [_view(request, each) for each in part]}

    @guard.by("fleet:others")
    @answers.gives(_ONE)
    @bodies.takes(bodies.Body({"volume_type": _Wanted}))
    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        asked = bodies.part(request, "volume_type", _Wanted)
        if any(each.name == asked.name for each in _all(self._conductor, request)):
            # The conductor takes an equal type for a request that was repeated.
            raise errors.Conflict(kind="Volume type", name=asked.name, reason="exists already")
        wanted: JSONObject = {
            "name": asked.name,
            "extra_specs": asked.extra_specs,
            "description": asked.description or "",
        }
        if asked.is_public is False or asked.access is False:
            wanted["is_public"] = False
        made = self._conductor.operator(request).create_volume_type(volume_type=wanted)
        new = _view(request, VolumeType.from_wire(made))
        del new["qos_specs_id"]
        response.media = {"volume_type": new}

    @guard.by("volume:get")
    @answers.gives(_ONE)
    def on_get_default(self, request: falcon.Request, _response: falcon.Response) -> None:
        """A volume without a type has none. :raises Fault: 404"""
        raise Fault(404, "There is no default volume type: a volume for which none is named has none.")

    @guard.by("fleet:others")
    @answers.gives(_ONE)
    @bodies.takes(bodies.Body({"volume_type": _Change}))
    def on_put_one(self, request: falcon.Request, response: falcon.Response, type_id: str) -> None:
        known = self._by_id(request, type_id)
        asked = bodies.part(request, "volume_type", _Change)
        given = {"description": asked.description, "new_name": asked.name}
        changes: JSONObject = {
            name: value for name, value in given.items() if value is not None and value != known.name
        }
        if asked.is_public not in (None, known.is_public):
            changes["is_public"] = asked.is_public
        if changes:
            self._conductor.operator(request).update_volume_type(name=known.name, extra_specs={}, **changes)
        shown = _view(request, self._by_id(request, type_id))
        del shown["qos_specs_id"], shown["os-volume-type-access:is_public"]
        response.media = {"volume_type": shown}

    @guard.by("volume:get")
    @answers.gives(_ONE)
    def on_get_one(self, request: falcon.Request, response: falcon.Response, type_id: str) -> None:
        response.media = {"volume_type": _view(request, self._by_id(request, type_id))}

    @guard.by("fleet:others")
    @answers.gives(answers.NOTHING, 202)
    def on_delete_one(self, request: falcon.Request, response: falcon.Response, type_id: str) -> None:
        self._conductor.operator(request).delete_volume_type(name=self._by_id(request, type_id).name)
        response.status = falcon.HTTP_202

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"volume_type_access": list[Access]}))
    def on_get_access(self, request: falcon.Request, response: falcon.Response, type_id: str) -> None:
        """:raises Fault: 404: the type is public"""
        known = self._by_id(request, type_id)
        if known.is_public:
            raise Fault(404, "Access list not available for public volume types.")
        found = self._conductor.operator(request).list_volume_type_access(name=known.name)
        response.media = {"volume_type_access": [{"volume_type_id": type_id, "project_id": each} for each in found]}

    @guard.by("fleet:others")
    @answers.gives(answers.NOTHING, 202)
    @bodies.takes(bodies.Body(_ACTIONS))
    def on_post_action(self, request: falcon.Request, response: falcon.Response, type_id: str) -> None:
        action = next(iter(bodies.whole(request)), "")
        if action not in _ACTIONS:
            raise errors.InvalidInput(field="action", reason=f"must be one of {', '.join(_ACTIONS)}")
        project, name = bodies.part(request, action, _Project).project, self._by_id(request, type_id).name
        calls = self._conductor.operator(request)
        change = calls.add_volume_type_access if action == "addProjectAccess" else calls.remove_volume_type_access
        change(name=name, project_id=project)
        response.status = falcon.HTTP_202

    @guard.by("fleet:others")
    @answers.gives(_SPECS)
    def on_get_extra_specs(self, request: falcon.Request, response: falcon.Response, type_id: str) -> None:
        response.media = {"extra_specs": self._by_id(request, type_id).extra_specs}

    @guard.by("fleet:others")
    @answers.gives(_SPECS)
    @bodies.takes(bodies.Body({"extra_specs": fields.Texts}))
    def on_post_extra_specs(self, request: falcon.Request, response: falcon.Response, type_id: str) -> None:
        name = self._by_id(request, type_id).name
        given = bodies.part(request, "extra_specs", fields.Texts)
        self._conductor.operator(request).update_volume_type(name=name, extra_specs=given)
        response.media = {"extra_specs": given}

    @guard.by("fleet:others")
    @answers.gives(answers.Answer(entire=dict[str, str]))
    def on_get_extra_spec(self, request: falcon.Request, response: falcon.Response, type_id: str, key: str) -> None:
        response.media = {key: self._spec(request, type_id, key)}

    @guard.by("fleet:others")
    @answers.gives(answers.Answer(entire=dict[str, str]))
    @bodies.takes(bodies.Body(entire=fields.Texts))
    def on_put_extra_spec(self, request: falcon.Request, response: falcon.Response, type_id: str, key: str) -> None:
        """Change an extra spec that is there."""
        known = self._by_id(request, type_id)
        given = bodies.entire(request, fields.Texts, "extra_specs")
        if set(given) != {key}:
            raise errors.InvalidInput(field="extra_specs", reason=f"must have {key[:100]} only, as the path has")
        self._spec(request, type_id, key)
        self._conductor.operator(request).update_volume_type(name=known.name, extra_specs=given)
        response.media = given

    def _spec(self, request: falcon.Request, type_id: str, key: str) -> str:
        known = self._by_id(request, type_id)
        if key not in known.extra_specs:
            raise Fault(404, f"Volume type {known.name} has no extra spec {key[:100]}.")
        return known.extra_specs[key]

    @guard.by("fleet:others")
    @answers.gives(answers.NOTHING, 202)
    def on_delete_extra_spec(self, request: falcon.Request, response: falcon.Response, type_id: str, key: str) -> None:
        self._spec(request, type_id, key)
        name = self._by_id(request, type_id).name
        self._conductor.operator(request).update_volume_type(name=name, extra_specs={key: None})
        response.status = falcon.HTTP_202

    def _by_id(self, request: falcon.Request, type_id: str) -> VolumeType:
        """Find a volume type by id only: clients look up names in the list. :raises errors.NotFound:"""
        found = next((each for each in _all(self._conductor, request) if str(each.id) == type_id), None)
        if found is None:
            raise errors.NotFound(kind="Volume type", name=type_id)
        return found


def find(conductor: Conductor, request: falcon.Request, name: str) -> VolumeType:
    """Find a volume type by id, or by name: clients send the id, and another type may be called like it.

    :raises errors.NotFound:
    """
    known = _all(conductor, request)
    found = [each for each in known if str(each.id) == name] or [each for each in known if each.name == name]
    if not found:
        raise errors.NotFound(kind="Volume type", name=name)
    return found[0]


def _all(conductor: Conductor, request: falcon.Request) -> list[VolumeType]:
    return [VolumeType.from_wire(each) for each in conductor.operator(request).list_volume_types()]


def _is_asked(request: falcon.Request, known: VolumeType) -> bool:
    """The administrator asks for public types or others, and otherwise gets all. Members see those that they may use."""
    given = request.get_param("is_public")
    if given in (None, "None", "none") or not identity.allows(request, rules.OTHERS):
        return True
    return known.is_public == bodies.flag(request, "is_public")


def _view(request: falcon.Request, known: VolumeType) -> _TypeShown:
    """Extra specs name backends: they are the administrator's."""
    shown: _TypeShown = {
        "id": str(known.id),
        "name": known.name,
        "description": known.description or None,
        "is_public": known.is_public,
        "os-volume-type-access:is_public": known.is_public,
        "qos_specs_id": None,
    }
    if identity.allows(request, rules.ALL_VOLUMES):
        shown["extra_specs"] = known.extra_specs
    return shown
