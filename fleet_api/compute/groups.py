# SPDX-License-Identifier: Apache-2.0
"""Server groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

import falcon
import pydantic
from typing_extensions import TypedDict

from fleet import errors
from fleet.objects import fields, instance_group
from fleet_api.access import identity
from fleet_api.access.identity import ADMIN
from fleet_api.requests import answers, bodies, paging
from fleet_api.requests.conductor import Conductor

_MOST = 1000
#: From this version on a group has one policy with rules; before, a list of policies.
_ONE_POLICY = (2, 64)
#: Versions from which a group has its project and user.
_OWNED = (2, 13)


@dataclasses.dataclass(frozen=True)
class _Rules:
    __pydantic_config__ = bodies.STRICT

    #: Clients send it as text.
    max_server_per_host: Annotated[int, pydantic.Field(ge=1, le=fields.INT32_MAX)] = 1


@dataclasses.dataclass(frozen=True)
class _New:
    __pydantic_config__ = bodies.STRICT

    name: fields.Name
    policy: instance_group.Policy | None = None
    policies: list[instance_group.Policy] | None = None
    rules: _Rules | None = None


class GroupShown(TypedDict):
    id: str
    name: str
    members: list[str]
    policies: NotRequired[Annotated[list[str], answers.until("2.64")]]
    metadata: NotRequired[Annotated[dict[str, str], answers.until("2.64")]]
    policy: NotRequired[Annotated[str, answers.since("2.64")]]
    rules: NotRequired[Annotated[dict[str, int], answers.since("2.64")]]
    project_id: NotRequired[Annotated[str, answers.since("2.13")]]
    user_id: NotRequired[Annotated[str, answers.since("2.13")]]


_ONE = answers.Answer({"server_group": GroupShown})


def view(request: falcon.Request, group: Mapping[str, Any]) -> GroupShown:
    shown: GroupShown = {"id": group["uuid"], "name": group["name"], "members": group["members"]}
    if request.context.version >= _OWNED:
        shown["project_id"], shown["user_id"] = group["project_id"] or ADMIN, group.get("user_id") or ADMIN
    if request.context.version < _ONE_POLICY:
        return {**shown, "policies": [group["policy"]], "metadata": {}}
    limited = group["policy"] == "anti-affinity"
    rules = {"max_server_per_host": group["max_server_per_host"]} if limited else {}
    return {**shown, "policy": group["policy"], "rules": rules}


class Groups:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @answers.gives(answers.Answer({"server_groups": list[GroupShown]}))
    @bodies.asks("limit", "offset", "all_projects")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        caller = request.context.caller
        everywhere = request.context.is_open or (bodies.flag(request, "all_projects") and identity.sees_all(request))
        of_project = {} if everywhere else {"project_id": caller.project_id}
        found = self._conductor.operator(request).list_groups(**of_project)
        start = bodies.number(request, "offset") or 0
        part = found[start : start + paging.limit_of(request, _MOST)]
        response.media = {"server_groups": [view(request, each) for each in part]}

    @answers.gives(_ONE)
    @bodies.takes(bodies.Body({"server_group": _New}))
    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        wanted = bodies.part(request, "server_group", _New)
        policies = [wanted.policy] if wanted.policy else wanted.policies or []
        if len(policies) != 1:
            raise errors.InvalidInput(field="server_group.policy", reason="is required, and there can be only one")
        most = wanted.rules.max_server_per_host if wanted.rules else 1
        if most != 1 and policies[0] != "anti-affinity":
            raise errors.InvalidInput(field="server_group.rules", reason="are for policy anti-affinity only")
        made = self._conductor.operator(request).create_group(wanted.name, policies[0], max_server_per_host=most)
        response.media = {"server_group": view(request, made)}

    @answers.gives(_ONE)
    def on_get_one(self, request: falcon.Request, response: falcon.Response, group_id: str) -> None:
        response.media = {"server_group": view(request, self._find(request, group_id))}

    @answers.gives(answers.NOTHING, 204)
    def on_delete_one(self, request: falcon.Request, response: falcon.Response, group_id: str) -> None:
        self._conductor.operator(request).delete_group(name=self._find(request, group_id)["uuid"])
        response.status = falcon.HTTP_204

    def _find(self, request: falcon.Request, group_id: str) -> Mapping[str, Any]:
        """By uuid only: clients look for a name in the list. :raises errors.NotFound:"""
        found: Mapping[str, Any] = self._conductor.operator(request).show_group(name=group_id)
        if found["uuid"] != group_id:
            raise errors.NotFound(kind="Server group", name=group_id)
        return found
