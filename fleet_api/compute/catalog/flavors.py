# SPDX-License-Identifier: Apache-2.0
"""Flavors, and the projects that may use those that are not public. :mod:`fleet_api.application` names their paths."""

from __future__ import annotations

import dataclasses
from typing import Any

import falcon
from typing_extensions import TypedDict

from fleet import errors
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import fields
from fleet_api.access import identity, rules
from fleet_api.compute.catalog.flavor_view import (
    DESCRIPTION,
    BriefFlavor,
    FlavorShown,
    NewFlavor,
    brief,
    require_description,
    view,
    wanted,
)
from fleet_api.requests import answers, bodies, guard, paging
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import Fault

_MOST = 1000
_PARAMETERS = ("limit", "marker", "is_public", "minRam", "minDisk", "sort_key", "sort_dir")
#: Fields by which a list may be ordered, and their names in the conductor's answer.
_SORTED_BY = {
    "flavorid": "flavorid",
    "name": "name",
    "memory_mb": "memory_mb",
    "vcpus": "vcpus",
    "root_gb": "root_gb",
    "ephemeral_gb": "ephemeral_gb",
    "swap": "swap",
    "id": "id",
}


@dataclasses.dataclass(frozen=True)
class _Change:
    __pydantic_config__ = bodies.STRICT

    description: fields.LongText | None


@dataclasses.dataclass(frozen=True)
class _Tenant:
    __pydantic_config__ = bodies.STRICT

    tenant: fields.Name


class Access(TypedDict):
    flavor_id: str
    tenant_id: str


_ONE = answers.Answer({"flavor": FlavorShown})
_ACCESS = answers.Answer({"flavor_access": list[Access]})
_ACTIONS: JSONMapping = {"addTenantAccess": _Tenant, "removeTenantAccess": _Tenant}


class Flavors:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("compute:flavors:get")
    @answers.gives(answers.listed("flavors", BriefFlavor))
    @bodies.asks(*_PARAMETERS)
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = self._list(request, "/flavors", brief)

    @guard.by("compute:flavors:get")
    @answers.gives(answers.listed("flavors", FlavorShown))
    @bodies.asks(*_PARAMETERS)
    def on_get_detail(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = self._list(request, "/flavors/detail", view)

    def _list(self, request: falcon.Request, path: str, shown: Any) -> JSONObject:
        found = [each for each in self._conductor.offers(request) if _is_asked(request, each)]
        least_ram, least_disk = bodies.number(request, "minRam") or 0, bodies.number(request, "minDisk") or 0
        found = [each for each in found if each["memory_mb"] >= least_ram and each["root_gb"] >= least_disk]
        ordered = paging.ordered(request, found, _SORTED_BY, "flavorid")
        part, more = paging.cut(request, ordered, [each["flavorid"] for each in ordered], _MOST)
        answer: JSONObject = {"flavors": [shown(request, each) for each in part]}
        if more and part:
            answer["flavors_links"] = paging.next_link(request, path, part[-1]["flavorid"])
        return answer

    @guard.by("fleet:others")
    @answers.gives(_ONE)
    @bodies.takes(bodies.Body({"flavor": NewFlavor}))
    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        asked = wanted(request)
        for each in self._conductor.offers(request):
            # The conductor takes an equal flavor for a request that was repeated.
            if asked["name"] == each["name"] or asked["flavorid"] == each["flavorid"]:
                raise errors.Conflict(kind="Flavor", name=asked["name"], reason="exists already, or its id does")
        created = self._conductor.operator(request).create_flavor(flavor=asked)
        response.media = {"flavor": view(request, created)}

    @guard.by("compute:flavors:get")
    @answers.gives(_ONE)
    def on_get_one(self, request: falcon.Request, response: falcon.Response, flavor_id: str) -> None:
        response.media = {"flavor": view(request, self._conductor.offer(request, flavor_id))}

    @guard.by("fleet:others")
    @answers.gives(_ONE)
    @bodies.takes(bodies.Body({"flavor": _Change}))
    def on_put_one(self, request: falcon.Request, response: falcon.Response, flavor_id: str) -> None:
        if request.context.version < DESCRIPTION:
            raise Fault(404, "A flavor is changed from version 2.55 on.")
        require_description(request)
        changes = {"description": bodies.part(request, "flavor", _Change).description}
        self._conductor.offer(request, flavor_id)
        changed = self._conductor.operator(request).update_flavor(name=flavor_id, changes=changes)
        response.media = {"flavor": view(request, changed)}

    @guard.by("fleet:others")
    @answers.gives(answers.NOTHING, 202)
    def on_delete_one(self, request: falcon.Request, response: falcon.Response, flavor_id: str) -> None:
        self._conductor.offer(request, flavor_id)
        self._conductor.operator(request).delete_flavor(name=flavor_id)
        response.status = falcon.HTTP_202

    @guard.by("fleet:others")
    @answers.gives(_ACCESS)
    def on_get_access(self, request: falcon.Request, response: falcon.Response, flavor_id: str) -> None:
        """:raises Fault: 404: the flavor is public"""
        if self._conductor.offer(request, flavor_id).get("is_public", True):
            raise Fault(404, "Access list not available for public flavors.")
        found = self._conductor.operator(request).list_flavor_access(name=flavor_id)
        response.media = {"flavor_access": _shown(flavor_id, found)}

    @guard.by("fleet:others")
    @answers.gives(_ACCESS)
    @bodies.takes(bodies.Body(_ACTIONS))
    def on_post_action(self, request: falcon.Request, response: falcon.Response, flavor_id: str) -> None:
        action = next(iter(bodies.whole(request)), "")
        if action not in _ACTIONS:
            raise errors.InvalidInput(field="action", reason=f"must be one of {', '.join(_ACTIONS)}")
        project = bodies.part(request, action, _Tenant).tenant
        self._conductor.offer(request, flavor_id)
        calls = self._conductor.operator(request)
        change = calls.add_flavor_access if action == "addTenantAccess" else calls.remove_flavor_access
        response.media = {"flavor_access": _shown(flavor_id, change(name=flavor_id, project_id=project))}


def _shown(flavor_id: str, projects: list[str]) -> list[Access]:
    return [{"flavor_id": flavor_id, "tenant_id": each} for each in projects]


def _is_asked(request: falcon.Request, offer: JSONMapping) -> bool:
    """A caller who may change flavors asks for public ones, others, or with ``None`` both.

    Members see those that they may use.
    """
    if not identity.allows(request, rules.OTHERS):
        return True
    given = request.get_param("is_public")
    if given in ("None", "none"):
        return True
    wanted_public = bodies.flag(request, "is_public", default=True)
    return bool(offer.get("is_public", True)) == wanted_public
