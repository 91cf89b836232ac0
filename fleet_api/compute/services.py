# SPDX-License-Identifier: Apache-2.0
"""Services of the fleet under nova's names. :mod:`fleet_api.application` names their paths."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from typing import Annotated, Literal, NotRequired

import falcon
import pydantic
from typing_extensions import TypedDict

from fleet import errors
from fleet.client import pages
from fleet.json_codec import JSONMapping
from fleet.objects import fields
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import Fault

#: Versions from which services can be forced down, and from which ids are uuids.
_FORCED_DOWN, UUIDS = (2, 11), (2, 53)
#: Tools look for nova's names of the services.
_NAMES = {"fleet-compute": "nova-compute", "fleet-scheduler": "nova-scheduler", "fleet-conductor": "nova-conductor"}
_OURS = {name: ours for ours, name in _NAMES.items()}
COMPUTE = "fleet-compute"
#: Services have no uuid: theirs is made of host and name.
_NAMESPACE = uuid.UUID("7b3f1b8e-6a53-4e0c-9c83-3d9a6f0a7d55")


def service_id(host: str, binary: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, f"{host}/{binary}"))


def number_of(identity: str) -> int:
    """Return the id in versions before uuids: the same in every list, also after others have come or gone."""
    return uuid.UUID(identity).int >> 97


@dataclasses.dataclass(frozen=True)
class _Change:
    """``host`` and ``binary`` name the service before version 2.53; after it the path does."""

    __pydantic_config__ = bodies.STRICT

    status: Literal["enabled", "disabled"] | None = None
    disabled_reason: fields.Name | None = None
    forced_down: bool | None = None
    host: fields.Name | None = None
    binary: fields.Name | None = None


#: Before version 2.53: the last part of the path, and what it changes.
_ACTIONS: Mapping[str, JSONMapping] = {
    "enable": {"status": "enabled"},
    "disable": {"status": "disabled"},
    "disable-log-reason": {"status": "disabled"},
    "force-down": {},
}


class ServiceShown(TypedDict):
    id: Annotated[int | str, pydantic.Field(description="A uuid from version 2.53 on.")]
    binary: str
    host: str
    zone: str | None
    status: str
    state: str
    disabled_reason: str | None
    forced_down: NotRequired[Annotated[bool, answers.since("2.11")]]
    updated_at: str | None


class ServiceChanged(TypedDict):
    """The answer to a change before version 2.53."""

    host: str
    binary: str
    status: NotRequired[str]
    disabled_reason: NotRequired[str]
    forced_down: NotRequired[bool]


class Services:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"services": list[ServiceShown]}))
    @bodies.asks("host", "binary")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        found = self._all(request)
        if host := request.get_param("host"):
            found = [each for each in found if each["host"] == host]
        if binary := request.get_param("binary"):
            found = [each for each in found if each["binary"] == _OURS.get(binary, binary)]
        response.media = {"services": [self._view(request, each) for each in found]}

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"service": ServiceShown | ServiceChanged}))
    @bodies.takes(bodies.Body(entire=_Change))
    def on_put_one(self, request: falcon.Request, response: falcon.Response, service_id: str) -> None:
        """Before version 2.53 the last part of the path is an action. :raises Fault: 404: not in this version"""
        change = bodies.entire(request, _Change, "service")
        if request.context.version >= UUIDS:
            about = self._named(request, service_id)
            self._change(request, about, change)
            response.media = {"service": self._view(request, self._named(request, service_id))}
            return
        if service_id not in _ACTIONS or (service_id == "force-down" and request.context.version < _FORCED_DOWN):
            raise Fault(404, f"Before version 2.53 services are changed by {', '.join(_ACTIONS)}.")
        about = self._of_host(request, change)
        self._change(request, about, _of_action(service_id, change))
        response.media = {"service": _changed(service_id, change)}

    def _change(self, request: falcon.Request, about: JSONMapping, change: _Change) -> None:
        where = {"host": about["host"], "binary": about["binary"]}
        if change.disabled_reason is not None and change.status != "disabled":
            raise errors.InvalidInput(field="service.disabled_reason", reason="needs the status disabled")
        if change.forced_down is not None:
            self._conductor.operator(request).force_down(**where, forced=change.forced_down)
        if change.status is not None:
            reason = change.disabled_reason if change.status == "disabled" else None
            self._conductor.operator(request).update_service(
                **where, disabled=change.status == "disabled", reason=reason
            )

    def _of_host(self, request: falcon.Request, change: _Change) -> JSONMapping:
        """:raises errors.InvalidInput: errors.NotFound:"""
        for name in ("host", "binary"):
            if not getattr(change, name):
                raise errors.InvalidInput(field=f"service.{name}", reason="is required")
        binary = _OURS.get(str(change.binary), change.binary)
        for each in self._all(request):
            if (each["host"], each["binary"]) == (change.host, binary):
                return each
        raise errors.NotFound(kind="Service", name=f"{change.binary} on host {change.host}")

    @guard.by("fleet:others")
    @answers.gives(answers.NOTHING, 204)
    def on_delete_one(self, request: falcon.Request, response: falcon.Response, service_id: str) -> None:
        about = self._named(request, service_id)
        self._conductor.operator(request).delete_service(host=about["host"], binary=about["binary"])
        response.status = falcon.HTTP_204

    def _all(self, request: falcon.Request) -> list[JSONMapping]:
        zones = dict(pages.host_table(self._conductor.operator(request), ["host", "zone"]))
        found = pages.services(self._conductor.operator(request))
        return [{**each, "zone": zones.get(each["host"], "internal")} for each in found]

    def _named(self, request: falcon.Request, wanted: str) -> JSONMapping:
        """:raises errors.NotFound: errors.Conflict: several have the number"""
        found = [each for each in self._all(request) if str(_id(request, each)) == wanted]
        if not found:
            raise errors.NotFound(kind="Service", name=wanted)
        if len(found) > 1:
            raise errors.Conflict(kind="Service", name=wanted, reason="stands for several; name it by its uuid (2.53)")
        return found[0]

    @staticmethod
    def _view(request: falcon.Request, service: JSONMapping) -> ServiceShown:
        version = request.context.version
        seen = service["last_seen_up"]
        shown: ServiceShown = {
            "id": _id(request, service),
            "binary": _NAMES.get(str(service["binary"]), str(service["binary"])),
            "host": service["host"],
            "zone": service["zone"],
            "status": service["status"],
            "state": service["state"],
            "disabled_reason": service["disabled_reason"],
            "updated_at": seen.removesuffix("Z") if seen else None,
        }
        if version >= _FORCED_DOWN:
            shown["forced_down"] = service["forced_down"]
        return shown


def _id(request: falcon.Request, service: JSONMapping) -> int | str:
    identity = service_id(service["host"], service["binary"])
    return identity if request.context.version >= UUIDS else number_of(identity)


def _of_action(action: str, change: _Change) -> _Change:
    """:raises errors.InvalidInput: the action needs a field that is not there"""
    needed = {"disable-log-reason": "disabled_reason", "force-down": "forced_down"}.get(action)
    if needed and getattr(change, needed) is None:
        raise errors.InvalidInput(field=f"service.{needed}", reason="is required")
    return dataclasses.replace(change, **_ACTIONS[action])


def _changed(action: str, change: _Change) -> ServiceChanged:
    shown: ServiceChanged = {"host": str(change.host), "binary": str(change.binary)}
    if action == "force-down":
        shown["forced_down"] = bool(change.forced_down)
        return shown
    shown["status"] = str(_ACTIONS[action]["status"])
    if action == "disable-log-reason":
        shown["disabled_reason"] = str(change.disabled_reason)
    return shown
