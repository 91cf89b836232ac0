# SPDX-License-Identifier: Apache-2.0
"""A flavor of the catalog in nova's form, and what clients send of a new one.

:mod:`fleet_api.compute.catalog.flavors` answers with it.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, NotRequired

import falcon
import pydantic
from typing_extensions import TypedDict

from fleet import errors
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import fields
from fleet_api.requests import answers, bodies, microversions

#: Versions from which an answer has a form.
DESCRIPTION, _SPECS, _SWAP_IS_A_NUMBER = (2, 55), (2, 61), (2, 75)
#: Clients send numbers as text as well.
_Size = Annotated[int, fields.WholeNumber(0, fields.INT32_MAX)]
_Positive = Annotated[int, fields.WholeNumber(1, fields.INT32_MAX)]
_Factor = Annotated[float, pydantic.Field(gt=0, le=3.4e38)]


@dataclasses.dataclass(frozen=True)
class NewFlavor:
    """``rxtx_factor`` is of no effect in nova either; it is only checked."""

    __pydantic_config__ = bodies.STRICT

    name: fields.Name
    ram: _Positive
    vcpus: _Positive
    disk: _Size
    id: fields.Name | fields.Integer | None = None
    swap: _Size = 0
    ephemeral: Annotated[_Size, pydantic.Field(validation_alias="OS-FLV-EXT-DATA:ephemeral")] = 0
    rxtx_factor: _Factor | None = None
    is_public: Annotated[bool, pydantic.Field(validation_alias="os-flavor-access:is_public")] = True
    description: fields.LongText | None = None


class _Identity(TypedDict):
    id: str
    name: str
    links: list[answers.Link]


class BriefFlavor(_Identity):
    description: NotRequired[Annotated[str | None, answers.since("2.55")]]


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
        "extra_specs": NotRequired[Annotated[dict[str, str], answers.since("2.61")]],
    },
)


class FlavorShown(BriefFlavor, _Sizes):
    """A flavor with its sizes in MB and GB."""


def brief(request: falcon.Request, offer: JSONMapping) -> BriefFlavor:
    key = offer["flavorid"]
    shown: BriefFlavor = {
        "id": key,
        "name": offer["name"],
        "links": microversions.links(request, f"/flavors/{key}"),
    }
    if request.context.version >= DESCRIPTION:
        shown["description"] = offer.get("description")
    return shown


def view(request: falcon.Request, offer: JSONMapping) -> FlavorShown:
    """:param offer: the conductor's answer to ``show_flavor``"""
    version = request.context.version
    shown: FlavorShown = {
        **brief(request, offer),
        "ram": offer["memory_mb"],
        "disk": offer["root_gb"],
        "vcpus": offer["vcpus"],
        "swap": offer["swap"] if offer["swap"] or version >= _SWAP_IS_A_NUMBER else "",
        "OS-FLV-EXT-DATA:ephemeral": offer["ephemeral_gb"],
        "OS-FLV-DISABLED:disabled": False,
        # A conductor that is older has public flavors only.
        "os-flavor-access:is_public": offer.get("is_public", True),
        "rxtx_factor": 1.0,
    }
    if version >= _SPECS:
        shown["extra_specs"] = offer["extra_specs"]
    return shown


def wanted(request: falcon.Request) -> JSONObject:
    """Return the flavor of a body, as the conductor takes it. :raises errors.InvalidInput:"""
    asked = bodies.part(request, "flavor", NewFlavor)
    if asked.description is not None:
        require_description(request)
    return {
        "name": asked.name,
        "flavorid": "" if asked.id in (None, "auto") else str(asked.id),
        "vcpus": asked.vcpus,
        "memory_mb": asked.ram,
        "root_gb": asked.disk,
        "ephemeral_gb": asked.ephemeral,
        "swap": asked.swap,
        "is_public": asked.is_public,
        "description": asked.description,
    }


def require_description(request: falcon.Request) -> None:
    """:raises errors.InvalidInput: the version of the request does not know descriptions"""
    if request.context.version < DESCRIPTION:
        raise errors.InvalidInput(field="flavor.description", reason="is known from version 2.55 on")
