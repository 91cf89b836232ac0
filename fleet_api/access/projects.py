# SPDX-License-Identifier: Apache-2.0
"""Projects, as clients look them up before they name one.

Without keystone a project is no more than the name that servers and quotas carry: it has no record, its id is its
name, and any name is one. Called by :mod:`fleet_api.application`.
"""

from __future__ import annotations

import falcon
from typing_extensions import TypedDict

from fleet.json_codec import JSONObject
from fleet_api.access import identity
from fleet_api.access.rules import ALL_QUOTAS
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.conductor import Conductor


class ProjectShown(TypedDict):
    id: str
    name: str
    domain_id: str
    enabled: bool
    is_domain: bool
    links: JSONObject


class NoLinks(TypedDict):
    """A list of projects has one part."""

    next: None


class Projects:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("compute:projects:get")
    @answers.gives(answers.Answer({"projects": list[ProjectShown], "links": NoLinks}))
    @bodies.asks("name")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """The project that the client names; without a name, its own and, for the administrator, those with quotas."""
        name = request.get_param("name")
        names = {name} if name else {request.context.caller.project_id}
        if not name and identity.allows(request, ALL_QUOTAS):
            names |= {each["project_id"] for each in self._conductor.operator(request).list_quotas()}
        response.media = {"projects": [_view(each) for each in sorted(names)], "links": {"next": None}}

    @guard.by("compute:projects:get")
    @answers.gives(answers.Answer({"project": ProjectShown}))
    def on_get_one(self, request: falcon.Request, response: falcon.Response, project_id: str) -> None:
        response.media = {"project": _view(project_id)}


def _view(name: str) -> ProjectShown:
    return {"id": name, "name": name, "domain_id": "default", "enabled": True, "is_domain": False, "links": {}}
