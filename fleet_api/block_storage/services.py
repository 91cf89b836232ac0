# SPDX-License-Identifier: Apache-2.0
"""The agents of storage backends, under cinder's name. :mod:`fleet_api.block_storage.routes` names its paths."""

from __future__ import annotations

import dataclasses
from typing import NotRequired

import falcon
from typing_extensions import TypedDict

from fleet import errors
from fleet.client import pages
from fleet.json_codec import JSONMapping
from fleet.objects import fields
from fleet_api.block_storage import views
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import NotHere

_AGENT, _NAME = "fleet-volume", "cinder-volume"
#: A backend that has reported no zone is in the default one of clients.
_ZONE = "nova"
#: By the last part of the path: whether the backend takes new volumes afterwards.
_ACTIONS = {"enable": True, "disable": False, "disable-log-reason": False}
#: Not here, but a backend that is not there is named.
_FROZEN = ("freeze", "thaw")


@dataclasses.dataclass(frozen=True)
class _Change:
    """``service`` is an older name of ``binary``."""

    __pydantic_config__ = bodies.STRICT

    host: fields.Name
    binary: fields.Name | None = None
    service: fields.Name | None = None
    disabled_reason: fields.Name | None = None


class BackendService(TypedDict):
    binary: str
    host: str
    zone: str
    status: str
    state: str
    updated_at: str | None
    disabled_reason: str | None


class ChangedService(TypedDict):
    host: str
    service: str
    binary: str
    status: str
    disabled: bool
    disabled_reason: NotRequired[str | None]


class BackendServices:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"services": list[BackendService]}))
    @bodies.asks("host", "binary")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        zones = {
            each["name"].partition("#")[0]: each["availability_zone"]
            for each in self._conductor.operator(request).list_pools()
        }
        host, binary = request.get_param("host"), request.get_param("binary")
        found = [each for each in self._agents(request) if _is_on(each, host) and binary in (None, _NAME)]
        response.media = {"services": [_view(each, zones.get(each["host"])) for each in found]}

    @guard.by("fleet:others")
    @answers.gives(answers.Answer(entire=ChangedService))
    @bodies.takes(bodies.Body(entire=_Change))
    def on_put_action(self, request: falcon.Request, response: falcon.Response, action: str) -> None:
        """Enable or disable a backend for new volumes. :raises errors.NotFound: there is no such service"""
        change = bodies.entire(request, _Change, "service")
        if action in _FROZEN and all(each["host"] != change.host for each in self._agents(request)):
            raise errors.InvalidInput(field="service.host", reason=f"is no storage backend: {change.host!r}")
        if action not in _ACTIONS:
            raise NotHere(f"PUT /os-services/{action[:40]}")
        if action == "disable-log-reason" and change.disabled_reason is None:
            raise errors.InvalidInput(field="service.disabled_reason", reason="is required")
        binary = change.binary or change.service
        if binary != _NAME or all(each["host"] != change.host for each in self._agents(request)):
            raise errors.NotFound(kind="Service", name=f"{binary} on host {change.host}")
        enabled, reason = _ACTIONS[action], change.disabled_reason
        self._conductor.operator(request).update_service(
            host=change.host, binary=_AGENT, disabled=not enabled, reason=None if enabled else reason
        )
        shown: ChangedService = {
            "host": change.host,
            "service": _NAME,
            "binary": _NAME,
            "status": "enabled" if enabled else "disabled",
            "disabled": not enabled,
        }
        if action != "disable":
            shown["disabled_reason"] = None if enabled else reason
        response.media = shown

    def _agents(self, request: falcon.Request) -> list[JSONMapping]:
        found = pages.services(self._conductor.operator(request))
        return [dict(each) for each in found if each["binary"] == _AGENT]


def _is_on(service: JSONMapping, host: str | None) -> bool:
    """:param host: a backend, or a machine with all its backends; None: any"""
    return host in (None, service["host"], service["host"].partition("@")[0])


def _view(service: JSONMapping, zone: str | None) -> BackendService:
    return {
        "binary": _NAME,
        "host": service["host"],
        "zone": zone or _ZONE,
        "status": service["status"],
        "state": service["state"],
        "updated_at": views.plain(service["last_seen_up"]),
        "disabled_reason": service["disabled_reason"],
    }
