# SPDX-License-Identifier: Apache-2.0
"""Volumes of servers: attach, detach, list and show. Called by :mod:`fleet_api.application`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, NotRequired

import falcon
from typing_extensions import TypedDict

from fleet.json_codec import JSONMapping
from fleet.objects import fields
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import Fault, NotHere
from fleet_api.servers.servers import show

#: Versions from which an answer has a form.
_TAGS, _DELETED_TOO, _WITHOUT_ID = (2, 70), (2, 79), (2, 89)


@dataclasses.dataclass(frozen=True)
class _Wanted:
    __pydantic_config__ = bodies.STRICT

    volumeId: fields.Uuid
    device: fields.Name | None = None
    tag: fields.Name | None = None
    delete_on_termination: fields.Flag = False


class AttachmentShown(TypedDict):
    volumeId: str
    serverId: str
    device: str
    id: NotRequired[Annotated[str, answers.until("2.89", "Always in the answer to an attachment.")]]
    tag: NotRequired[Annotated[None, answers.since("2.70")]]
    delete_on_termination: NotRequired[Annotated[bool, answers.since("2.79")]]
    attachment_id: NotRequired[Annotated[str, answers.since("2.89")]]
    bdm_uuid: NotRequired[Annotated[str, answers.since("2.89")]]


_ONE = answers.Answer({"volumeAttachment": AttachmentShown})


class Attachments:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("compute:attachments:get")
    @answers.gives(answers.Answer({"volumeAttachments": list[AttachmentShown]}))
    def on_get(self, request: falcon.Request, response: falcon.Response, server_id: str) -> None:
        found = [_view(request, each) for each in self._of(request, server_id)]
        response.media = {"volumeAttachments": found}

    @guard.by("compute:attachments:change")
    @answers.gives(_ONE)
    @bodies.takes(bodies.Body({"volumeAttachment": _Wanted}))
    def on_post(self, request: falcon.Request, response: falcon.Response, server_id: str) -> None:
        show(self._conductor, request, server_id)
        wanted = bodies.part(request, "volumeAttachment", _Wanted)
        if wanted.tag or wanted.delete_on_termination:
            raise NotHere("A tag of a volume" if wanted.tag else "A volume that is deleted with its server")
        named = {"name": server_id, "volume": wanted.volumeId, **({"device": wanted.device} if wanted.device else {})}
        made = self._conductor.operator(request).attach_volume(**named)
        response.media = {"volumeAttachment": _new(request, made)}

    @guard.by("compute:attachments:get")
    @answers.gives(_ONE)
    def on_get_one(self, request: falcon.Request, response: falcon.Response, server_id: str, volume_id: str) -> None:
        response.media = {"volumeAttachment": _view(request, self._one(request, server_id, volume_id))}

    @guard.by("compute:attachments:change")
    @answers.gives(answers.NOTHING, 202)
    def on_delete_one(self, request: falcon.Request, response: falcon.Response, server_id: str, volume_id: str) -> None:
        self._one(request, server_id, volume_id)
        self._conductor.operator(request).detach_volume(name=server_id, volume=volume_id)
        response.status = falcon.HTTP_202

    def _one(self, request: falcon.Request, server_id: str, volume_id: str) -> JSONMapping:
        for each in self._of(request, server_id):
            if each["volume"] == volume_id:
                return each
        raise Fault(404, f"Volume {volume_id} is not attached to server {server_id}.")

    def _of(self, request: falcon.Request, server_id: str) -> Sequence[JSONMapping]:
        # A conductor that is too old knows none.
        found: Sequence[JSONMapping] = show(self._conductor, request, server_id).get("volumes", ())
        return found


def _view(request: falcon.Request, found: JSONMapping) -> AttachmentShown:
    shown = _new(request, found)
    if request.context.version >= _WITHOUT_ID:
        del shown["id"]
        shown["attachment_id"] = shown["bdm_uuid"] = found["uuid"]
    return shown


def _new(request: falcon.Request, found: JSONMapping) -> AttachmentShown:
    """Return it as the answer to an attachment has it: that one keeps its form."""
    version = request.context.version
    shown: AttachmentShown = {
        "id": found["volume"],
        "volumeId": found["volume"],
        "serverId": found["instance"],
        "device": f"/dev/{found['device']}",
    }
    if version >= _TAGS:
        shown["tag"] = None
    if version >= _DELETED_TOO:
        shown["delete_on_termination"] = False
    return shown
