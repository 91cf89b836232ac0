# SPDX-License-Identifier: Apache-2.0
"""Quotas of projects.

One resource answers for servers and for volumes: clients of both services ask for it at the same path, and each reads the
names that it knows. What a fleet does not limit is -1.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

import falcon
import pydantic
from typing_extensions import TypedDict

from fleet import errors
from fleet.objects import fields
from fleet.objects.quota import UNLIMITED
from fleet_api.access import identity
from fleet_api.access.policies import ALL_QUOTAS
from fleet_api.requests import answers, bodies
from fleet_api.requests.conductor import Conductor

#: What nova and cinder limit. ``local_gb`` is no name of theirs: their clients refuse answers with other names.
_LIMITED = ("instances", "cores", "ram", "server_groups", "volumes", "gigabytes")
_OTHERS = ("key_pairs", "metadata_items", "server_group_members", "snapshots")
#: Until these versions.
_FILES = ((2, 57), ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes"))
_NETWORKS = ((2, 36), ("fixed_ips", "floating_ips", "security_groups", "security_group_rules"))
#: Clients send numbers as text as well.
_Limit = Annotated[int, pydantic.Field(ge=UNLIMITED, le=fields.INT32_MAX)]


@dataclasses.dataclass(frozen=True)
class _Changes:
    __pydantic_config__ = pydantic.ConfigDict(extra="allow")

    instances: _Limit | None = None
    cores: _Limit | None = None
    ram: _Limit | None = None
    server_groups: _Limit | None = None
    volumes: _Limit | None = None
    gigabytes: _Limit | None = None
    #: A limit below what is used is accepted in any case.
    force: bool = False


class Use(TypedDict):
    limit: int
    in_use: int
    reserved: int


#: ``id`` is the project. The other keys are resources.
_Limits = dict[str, int | str]
_Uses = dict[str, Use | str]


class Quotas:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @answers.gives(answers.Answer({"quota_set": _Limits | _Uses}))
    @bodies.asks("usage")
    def on_get(self, request: falcon.Request, response: falcon.Response, project_id: str) -> None:
        with_usage = bodies.flag(request, "usage")
        response.media = self._of(request, project_id, "limits", with_usage)

    @answers.gives(answers.Answer({"quota_set": _Uses}))
    def on_get_detail(self, request: falcon.Request, response: falcon.Response, project_id: str) -> None:
        response.media = self._of(request, project_id, "limits", with_usage=True)

    @answers.gives(answers.Answer({"quota_set": _Limits}))
    def on_get_defaults(self, request: falcon.Request, response: falcon.Response, project_id: str) -> None:
        response.media = self._of(request, project_id, "default")

    @answers.gives(answers.Answer({"quota_set": _Limits}))
    @bodies.takes(bodies.Body({"quota_set": _Changes}))
    def on_put(self, request: falcon.Request, response: falcon.Response, project_id: str) -> None:
        wanted = bodies.part(request, "quota_set", _Changes)
        known = {field.name for field in dataclasses.fields(_Changes)} | {"tenant_id", "project_id"}
        for name, value in bodies.whole(request)["quota_set"].items():
            if name not in known and value != UNLIMITED:
                raise errors.InvalidInput(field=f"quota_set.{name}"[:100], reason="is not limited here: must be -1")
        limits = {name: limit for name in _LIMITED if (limit := getattr(wanted, name)) is not None}
        if limits:
            self._conductor.operator(request).set_quota(project_id=project_id, limits=limits)
        response.media = self._of(request, project_id, "limits")
        del response.media["quota_set"]["id"]

    @answers.gives(answers.NOTHING, 202)
    def on_delete(self, request: falcon.Request, response: falcon.Response, project_id: str) -> None:
        self._conductor.operator(request).delete_quota(project_id=project_id)
        response.status = falcon.HTTP_202

    def _of(
        self, request: falcon.Request, project_id: str, which: Literal["limits", "default"], with_usage: bool = False
    ) -> dict[str, dict[str, Any]]:
        """:param which: ``limits`` or ``default``. :raises faults.Fault: another project's are the administrator's"""
        if project_id != request.context.caller.project_id:
            identity.require(request, ALL_QUOTAS)
        found = self._conductor.operator(request).show_quota(project_id=project_id)
        limits = {**dict.fromkeys(_unlimited(request), UNLIMITED), **{name: found[which][name] for name in _LIMITED}}
        if with_usage:
            used = found["used"]
            uses: dict[str, Use] = {
                name: {"limit": limit, "in_use": used.get(name, 0), "reserved": 0} for name, limit in limits.items()
            }
            return {"quota_set": {"id": project_id, **uses}}
        return {"quota_set": {"id": project_id, **limits}}


def _unlimited(request: falcon.Request) -> list[str]:
    version = request.context.version
    return [*_OTHERS, *(name for until, names in (_FILES, _NETWORKS) if version < until for name in names)]
