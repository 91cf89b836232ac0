# SPDX-License-Identifier: Apache-2.0
"""Flavors and their extra specs."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, NotRequired

import falcon
import pydantic
from typing_extensions import TypedDict

from fleet import errors
from fleet.objects import Flavor, fields
from fleet_api.requests import answers, bodies, microversions, paging
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import NotHere

_MOST = 1000
#: Versions from which an answer has a form.
_DESCRIPTION, _SPECS, _SWAP_IS_A_NUMBER = (2, 55), (2, 61), (2, 75)
#: Clients send numbers as text as well.
_Size = Annotated[int, pydantic.Field(ge=0, le=fields.INT32_MAX)]
_Specs = Annotated[dict[fields.Name, fields.Text], pydantic.Field(max_length=128)]


@dataclasses.dataclass(frozen=True)
class _NewFlavor:
    __pydantic_config__ = bodies.STRICT

    name: fields.Name
    ram: Annotated[int, pydantic.Field(ge=1, le=fields.INT32_MAX)]
    vcpus: Annotated[int, pydantic.Field(ge=1, le=fields.INT32_MAX)]
    disk: _Size
    id: fields.Name | int | None = None
    swap: _Size = 0
    ephemeral: Annotated[_Size, pydantic.Field(validation_alias="OS-FLV-EXT-DATA:ephemeral")] = 0
    rxtx_factor: float | None = None
    is_public: Annotated[bool, pydantic.Field(validation_alias="os-flavor-access:is_public")] = True
    description: fields.LongText | None = None


class BriefFlavor(TypedDict):
    id: str
    name: str
    links: list[answers.Link]


_Sizes = TypedDict(
    "_Sizes",
    {
        "ram": int,
        "disk": int,
        "vcpus": int,
        "swap": Annotated[int | str, pydantic.Field(description="Before version 2.75 empty in place of 0.")],
        "OS-FLV-EXT-DATA:ephemeral": int,
        "OS-FLV-DISABLED:disabled": bool,
        "os-flavor-access:is_public": bool,
        "rxtx_factor": float,
        "description": NotRequired[Annotated[None, answers.since("2.55")]],
        "extra_specs": NotRequired[Annotated[dict[str, str], answers.since("2.61")]],
    },
)


class FlavorShown(BriefFlavor, _Sizes):
    """A flavor with its sizes in MB and GB."""


def view(request: falcon.Request, flavor: Flavor) -> FlavorShown:
    version = request.context.version
    shown: FlavorShown = {
        **brief(request, flavor),
        "ram": flavor.memory_mb,
        "disk": flavor.root_gb,
        "vcpus": flavor.vcpus,
        "swap": flavor.swap if flavor.swap or version >= _SWAP_IS_A_NUMBER else "",
        "OS-FLV-EXT-DATA:ephemeral": flavor.ephemeral_gb,
        "OS-FLV-DISABLED:disabled": False,
        "os-flavor-access:is_public": True,
        "rxtx_factor": 1.0,
    }
    if version >= _DESCRIPTION:
        shown["description"] = None
    if version >= _SPECS:
        shown["extra_specs"] = flavor.extra_specs
    return shown


def brief(request: falcon.Request, flavor: Flavor) -> BriefFlavor:
    return {
        "id": flavor.flavorid,
        "name": flavor.name,
        "links": microversions.links(request, f"/flavors/{flavor.flavorid}"),
    }


_ONE = answers.Answer({"flavor": FlavorShown})


class Flavors:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @answers.gives(answers.listed("flavors", BriefFlavor))
    @bodies.asks("limit", "marker", "is_public", "minRam", "minDisk")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = self._list(request, "/flavors", brief)

    @answers.gives(answers.listed("flavors", FlavorShown))
    @bodies.asks("limit", "marker", "is_public", "minRam", "minDisk")
    def on_get_detail(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = self._list(request, "/flavors/detail", view)

    def _list(self, request: falcon.Request, path: str, shown: Any) -> dict[str, Any]:
        # All flavors are public: "None" asks for both kinds.
        private = request.get_param("is_public") not in (None, "None", "none") and not bodies.flag(request, "is_public")
        found = [] if private else self._conductor.flavors(request)
        least_ram, least_disk = bodies.number(request, "minRam") or 0, bodies.number(request, "minDisk") or 0
        found = [each for each in found if each.memory_mb >= least_ram and each.root_gb >= least_disk]
        part, more = paging.cut(request, found, [each.flavorid for each in found], _MOST)
        answer: dict[str, Any] = {"flavors": [shown(request, each) for each in part]}
        if more:
            answer["flavors_links"] = paging.next_link(request, path, part[-1].flavorid)
        return answer

    @answers.gives(_ONE)
    @bodies.takes(bodies.Body({"flavor": _NewFlavor}))
    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        wanted = bodies.part(request, "flavor", _NewFlavor)
        if not wanted.is_public:
            raise NotHere("A flavor that is not public")
        if wanted.description:
            raise NotHere("The description of a flavor")
        made = Flavor(
            name=wanted.name,
            flavorid="" if wanted.id in (None, "auto") else str(wanted.id),
            vcpus=wanted.vcpus,
            memory_mb=wanted.ram,
            root_gb=wanted.disk,
            ephemeral_gb=wanted.ephemeral,
            swap=wanted.swap,
        )
        created = Flavor.from_wire(self._conductor.operator(request).create_flavor(flavor=made.to_wire()))
        response.media = {"flavor": view(request, created)}

    @answers.gives(_ONE)
    def on_get_one(self, request: falcon.Request, response: falcon.Response, flavor_id: str) -> None:
        response.media = {"flavor": view(request, self._conductor.flavor(request, flavor_id))}

    @answers.gives(answers.NOTHING, 202)
    def on_delete_one(self, request: falcon.Request, response: falcon.Response, flavor_id: str) -> None:
        self._conductor.flavor(request, flavor_id)
        self._conductor.operator(request).delete_flavor(name=flavor_id)
        response.status = falcon.HTTP_202


class ExtraSpecs:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @answers.gives(answers.Answer({"extra_specs": dict[str, str]}))
    def on_get(self, request: falcon.Request, response: falcon.Response, flavor_id: str) -> None:
        response.media = {"extra_specs": self._conductor.flavor(request, flavor_id).extra_specs}

    @answers.gives(answers.Answer({"extra_specs": dict[str, str]}))
    @bodies.takes(bodies.Body({"extra_specs": _Specs}))
    def on_post(self, request: falcon.Request, response: falcon.Response, flavor_id: str) -> None:
        specs = bodies.part(request, "extra_specs", _Specs)
        self._change(request, flavor_id, specs)
        response.media = {"extra_specs": specs}

    @answers.gives(answers.Answer(entire=dict[str, str]))
    def on_get_one(self, request: falcon.Request, response: falcon.Response, flavor_id: str, key: str) -> None:
        response.media = {key: self._known(request, flavor_id, key)}

    @answers.gives(answers.Answer(entire=dict[str, str]))
    @bodies.takes(bodies.Body(entire=_Specs))
    def on_put_one(self, request: falcon.Request, response: falcon.Response, flavor_id: str, key: str) -> None:
        specs = bodies.entire(request, _Specs, "extra_specs")
        if set(specs) != {key}:
            raise errors.InvalidInput(field="extra_specs", reason=f"must have {key[:100]} only, as the path has")
        self._change(request, flavor_id, specs)
        response.media = specs

    @answers.gives(answers.NOTHING)
    def on_delete_one(self, request: falcon.Request, response: falcon.Response, flavor_id: str, key: str) -> None:
        self._known(request, flavor_id, key)
        self._change(request, flavor_id, {key: None})

    def _known(self, request: falcon.Request, flavor_id: str, key: str) -> str:
        specs = self._conductor.flavor(request, flavor_id).extra_specs
        if key not in specs:
            raise errors.NotFound(kind=f"Extra spec of flavor {flavor_id}:", name=key)
        return specs[key]

    def _change(self, request: falcon.Request, flavor_id: str, specs: dict[str, Any]) -> None:
        self._conductor.flavor(request, flavor_id)
        self._conductor.operator(request).update_flavor(name=flavor_id, extra_specs=specs)
