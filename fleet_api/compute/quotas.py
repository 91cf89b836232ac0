# SPDX-License-Identifier: Apache-2.0
"""Quotas of projects, in the compute API and in that of volumes.

Called by :mod:`fleet_api.application` and :mod:`fleet_api.block_storage.routes`. What a fleet does not limit is -1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import falcon
import pydantic
from typing_extensions import TypedDict

from fleet import errors
from fleet.client import pages
from fleet.objects import fields
from fleet.objects.answers.catalog import QuotaView
from fleet.objects.quota import UNLIMITED
from fleet_api.access import identity
from fleet_api.access.rules import ALL_QUOTAS
from fleet_api.compute import quota_names
from fleet_api.compute.quota_names import Face
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import Fault, NotHere

#: Clients send numbers as text as well.
_Limit = Annotated[int, fields.WholeNumber(UNLIMITED, fields.INT32_MAX)]
#: Limits by name; beside them ``force`` (a limit below what is used is accepted in any case) and the project. Limits are
#: parsed by :func:`changes`, which knows their names.
_Given = pydantic.PlainValidator(lambda value: value, json_schema_input_type=_Limit | fields.Flag | str | None)
_Changes = dict[fields.Name, Annotated[object, _Given]]
_NO_LIMITS = frozenset({"force", "tenant_id", "project_id"})
#: The only class of quotas.
DEFAULT = "default"


class Use(TypedDict):
    limit: int
    in_use: int
    reserved: int


#: ``id`` is the project. The other keys are resources.
_Limits = dict[str, int | str]
_Uses = dict[str, Use | str]


class Quotas:
    """:param face: of which service
    :param require_project: raises errors.InvalidInput for a project that is not there
    """

    def __init__(self, conductor: Conductor, face: Face, require_project: Callable[[str], None]) -> None:
        self._conductor = conductor
        self._face = face
        self._require_project = require_project

    @guard.by("compute:limits:get")
    @answers.gives(answers.Answer({"quota_set": _Limits | _Uses}))
    @bodies.asks("usage")
    def on_get(self, request: falcon.Request, response: falcon.Response, project_id: str) -> None:
        shown: Any = self._uses if bodies.flag(request, "usage") else self._limits
        response.media = {"quota_set": {"id": project_id, **shown(request, project_id)}}

    @guard.by("compute:limits:get")
    @answers.gives(answers.Answer({"quota_set": _Uses}))
    def on_get_detail(self, request: falcon.Request, response: falcon.Response, project_id: str) -> None:
        response.media = {"quota_set": {"id": project_id, **self._uses(request, project_id)}}

    @guard.by("compute:limits:get")
    @answers.gives(answers.Answer({"quota_set": _Limits}))
    def on_get_defaults(self, request: falcon.Request, response: falcon.Response, project_id: str) -> None:
        self._require(request, project_id)
        found = self._conductor.operator(request).show_quota(project_id=project_id)["default"]
        response.media = {"quota_set": {"id": project_id, **_shown(request, self._face, found)}}

    @guard.by("compute:quotas:update")
    @answers.gives(answers.Answer({"quota_set": _Limits}))
    @bodies.takes(bodies.Body({"quota_set": _Changes}))
    def on_put(self, request: falcon.Request, response: falcon.Response, project_id: str) -> None:
        _require_whole(request)
        self._require_project(project_id)
        limits = changes(bodies.part(request, "quota_set", _Changes), self._face)
        if limits:
            self._conductor.operator(request).set_quota(project_id=project_id, limits=limits)
        response.media = {"quota_set": self._limits(request, project_id)}

    @guard.by("compute:quotas:update")
    @answers.gives(answers.NOTHING, 200, 202)
    def on_delete(self, request: falcon.Request, response: falcon.Response, project_id: str) -> None:
        """Return to the defaults. Limits of the other service stay."""
        _require_whole(request)
        self._require_project(project_id)
        limits = dict.fromkeys(self._face.own)
        self._conductor.operator(request).set_quota(project_id=project_id, limits=limits)
        response.status = falcon.HTTP_202 if self._face is quota_names.COMPUTE else falcon.HTTP_200

    def _limits(self, request: falcon.Request, project_id: str) -> dict[str, int]:
        return _shown(request, self._face, self._quota(request, project_id)["limits"])

    def _quota(self, request: falcon.Request, project_id: str) -> QuotaView:
        self._require(request, project_id)
        return self._conductor.operator(request).show_quota(project_id=project_id)

    def _require(self, request: falcon.Request, project_id: str) -> None:
        """:raises faults.Fault: another project's are the administrator's; errors.InvalidInput: there is no such project"""
        _require_whole(request)
        if project_id != request.context.caller.project_id:
            identity.require(request, ALL_QUOTAS)
            self._require_project(project_id)

    def _uses(self, request: falcon.Request, project_id: str) -> dict[str, Use]:
        found = self._quota(request, project_id)
        limits = _shown(request, self._face, found["limits"])
        used = uses(self._conductor, request, self._face, project_id, found["used"])
        return {name: {"limit": limit, "in_use": used.get(name, 0), "reserved": 0} for name, limit in limits.items()}


def _require_whole(request: falcon.Request) -> None:
    """Quotas are of whole projects: nova has some of a user in a project. :raises NotHere:"""
    if request.params.get("user_id"):
        raise NotHere("A quota of a user (the parameter user_id)")


class QuotaClasses:
    """``default`` is the only class: what projects without quotas of their own may have. The configuration has it."""

    def __init__(self, conductor: Conductor, face: Face) -> None:
        self._conductor = conductor
        self._face = face

    @guard.by("compute:limits:get")
    @answers.gives(answers.Answer({"quota_class_set": _Limits}))
    def on_get(self, request: falcon.Request, response: falcon.Response, quota_class: str) -> None:
        if quota_class != DEFAULT:
            raise Fault(404, f"The only class of quotas is {DEFAULT}, not {quota_class[:100]}.")
        project = request.context.caller.project_id or DEFAULT
        found = self._conductor.operator(request).show_quota(project_id=project)["default"]
        response.media = {"quota_class_set": {"id": quota_class, **_shown(request, self._face, found, of_class=True)}}

    @guard.by("fleet:others")
    @answers.gives(answers.NOTHING)
    def on_put(self, request: falcon.Request, _response: falcon.Response, quota_class: str) -> None:
        raise NotHere("A change of default quotas: it is in the configuration, [quota]. It")


def uses(
    conductor: Conductor, request: falcon.Request, face: Face, project_id: str, limited: Mapping[str, int]
) -> dict[str, int]:
    """Return the amounts that a project uses, by resource. :param limited: what it uses of resources with limits"""
    used = dict(limited)
    if face is quota_names.VOLUMES:
        found = pages.snapshots(conductor.operator(request), {"project_id": project_id})
        used["snapshots"] = sum(each["status"] != "deleted" for each in found)
    return used


def changes(wanted: Mapping[str, object], face: Face) -> dict[str, int]:
    """Return the limits of a body. :raises errors.InvalidInput: naming one that is not a limit of the service"""
    limits = {}
    for name, value in wanted.items():
        if name in _NO_LIMITS or value is None:
            continue
        if name not in face.all_names():
            raise errors.InvalidInput(field=f"quota_set.{name}"[:100], reason="is not known here")
        limit = fields.parse(_Limit, value, f"quota_set.{name}")
        if name in face.limited:
            limits[name] = limit
        elif limit not in (UNLIMITED, face.fixed.get(name)):
            raise errors.InvalidInput(field=f"quota_set.{name}", reason="cannot be changed here: must be -1")
    return limits


def _shown(request: falcon.Request, face: Face, known: Mapping[str, int], of_class: bool = False) -> dict[str, int]:
    limits = {**face.fixed, **known}
    return {name: limits.get(name, UNLIMITED) for name in face.names(request.context.version, of_class)}
