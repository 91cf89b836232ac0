# SPDX-License-Identifier: Apache-2.0
"""The images that the fleet has records of, in the form of OpenStack's image API v2.

They are made with ``fleet image``. Called by :mod:`fleet_api.application`.
"""

from __future__ import annotations

import falcon
import pydantic
from typing_extensions import TypedDict

from fleet.json_codec import JSONObject
from fleet.objects import ImageRecord
from fleet_api.requests import answers, bodies, guard, microversions, paging
from fleet_api.requests.conductor import Conductor

_MOST = 1000
#: Where nova had its own image paths, and the version from which it has them no more.
_OF_COMPUTE, _NO_PROXIES = f"{microversions.COMPUTE.path}/images", (2, 36)


class _Known(TypedDict):
    id: str
    name: str
    status: str
    visibility: str
    container_format: str
    disk_format: str
    size: int | None
    min_ram: int
    min_disk: int
    checksum: None
    created_at: str
    updated_at: str
    protected: bool
    os_hidden: bool
    owner: None
    tags: list[str]
    self: str
    schema: str


@pydantic.with_config(pydantic.ConfigDict(extra="allow"))
class ImageShown(_Known):
    """Other fields are the image's properties, as text."""


def view(image: ImageRecord) -> JSONObject:
    known: ImageShown = {
        "id": image.uuid,
        "name": image.name,
        "status": "active",
        "visibility": "public",
        "container_format": "bare",
        "disk_format": image.disk_format,
        "size": image.size or None,
        "min_ram": image.min_ram,
        "min_disk": image.min_disk,
        "checksum": None,
        "created_at": image.created_at,
        "updated_at": image.created_at,
        "protected": False,
        "os_hidden": False,
        "owner": None,
        "tags": [],
        "self": f"/v2/images/{image.uuid}",
        "schema": "/v2/schemas/image",
    }
    algorithm, _, digest = image.checksum.partition(":")
    hashed = {"os_hash_algo": algorithm, "os_hash_value": digest} if digest else {}
    # A property has no other meaning than the field of the same name.
    return {**{name: str(value) for name, value in image.properties.items()}, **hashed, **known}


class Images:
    """nova's own image paths ended with version 2.36. A client of the image API names no version of compute."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("compute:images:get")
    @answers.gives(answers.Answer({"images": list[ImageShown], "first": str}, {"next": str}))
    @bodies.asks("limit", "marker", "name", "id")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        _require_image_api(request)
        found = self._conductor.images(request)
        if name := request.get_param("name"):
            found = [each for each in found if each.name == name]
        if ids := request.get_param("id"):
            wanted = set(ids.removeprefix("in:").split(","))
            found = [each for each in found if each.uuid in wanted]
        part, more = paging.cut(request, found, [each.uuid for each in found], _MOST)
        answer: JSONObject = {"images": [view(each) for each in part], "first": "/v2/images"}
        if more:
            answer["next"] = paging.following(request, "/v2/images", part[-1].uuid)
        response.media = answer

    @guard.by("compute:images:get")
    @answers.gives(answers.Answer(entire=ImageShown))
    def on_get_one(self, request: falcon.Request, response: falcon.Response, image_id: str) -> None:
        _require_image_api(request)
        response.media = view(self._conductor.image(request, image_id))


def _require_image_api(request: falcon.Request) -> None:
    if request.path.startswith(_OF_COMPUTE):
        microversions.require_before(request, _NO_PROXIES)
