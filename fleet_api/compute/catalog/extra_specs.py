# SPDX-License-Identifier: Apache-2.0
"""Extra specs of flavors. :mod:`fleet_api.application` names their paths."""

from __future__ import annotations

from typing import Annotated

import falcon
import pydantic

from fleet import errors
from fleet.json_codec import JSONObject
from fleet.objects import fields
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.conductor import Conductor

_Specs = Annotated[dict[fields.Name, fields.Text], pydantic.Field(max_length=128)]


class ExtraSpecs:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("compute:flavors:get")
    @answers.gives(answers.Answer({"extra_specs": dict[str, str]}))
    def on_get(self, request: falcon.Request, response: falcon.Response, flavor_id: str) -> None:
        response.media = {"extra_specs": self._conductor.flavor(request, flavor_id).extra_specs}

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"extra_specs": dict[str, str]}))
    @bodies.takes(bodies.Body({"extra_specs": _Specs}))
    def on_post(self, request: falcon.Request, response: falcon.Response, flavor_id: str) -> None:
        specs = bodies.part(request, "extra_specs", _Specs)
        self._change(request, flavor_id, specs)
        response.media = {"extra_specs": specs}

    @guard.by("compute:flavors:get")
    @answers.gives(answers.Answer(entire=dict[str, str]))
    def on_get_one(self, request: falcon.Request, response: falcon.Response, flavor_id: str, key: str) -> None:
        response.media = {key: self._known(request, flavor_id, key)}

    @guard.by("fleet:others")
    @answers.gives(answers.Answer(entire=dict[str, str]))
    @bodies.takes(bodies.Body(entire=_Specs))
    def on_put_one(self, request: falcon.Request, response: falcon.Response, flavor_id: str, key: str) -> None:
        specs = bodies.entire(request, _Specs, "extra_specs")
        if set(specs) != {key}:
            raise errors.InvalidInput(field="extra_specs", reason=f"must have {key[:100]} only, as the path has")
        self._change(request, flavor_id, specs)
        response.media = specs

    @guard.by("fleet:others")
    @answers.gives(answers.NOTHING)
    def on_delete_one(self, request: falcon.Request, response: falcon.Response, flavor_id: str, key: str) -> None:
        self._known(request, flavor_id, key)
        self._change(request, flavor_id, {key: None})

    def _known(self, request: falcon.Request, flavor_id: str, key: str) -> str:
        specs = self._conductor.flavor(request, flavor_id).extra_specs
        if key not in specs:
            raise errors.NotFound(kind=f"Extra spec of flavor {flavor_id}:", name=key)
        return specs[key]

    def _change(self, request: falcon.Request, flavor_id: str, specs: JSONObject) -> None:
        self._conductor.flavor(request, flavor_id)
        self._conductor.operator(request).update_flavor(name=flavor_id, extra_specs=specs)
