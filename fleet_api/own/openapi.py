# SPDX-License-Identifier: Apache-2.0
"""``GET /fleet/v1/openapi.json``: the document of the API in the form of https://spec.openapis.org/oas/v3.1.0.

It is made of what serves the requests: the routes, the responders' first lines, the kinds that parse the bodies
(:func:`fleet_api.requests.bodies.takes`), the kinds of the answers (:func:`fleet_api.requests.answers.gives`), and the
policy. So it says what is true of this release. Called by :mod:`fleet_api.application`.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import falcon
import pydantic
from pydantic.json_schema import GenerateJsonSchema

from fleet.json_codec import JSONObject
from fleet.rpc import versions
from fleet_api.access.policies import RULES
from fleet_api.access.rules import CALLS, DOCUMENT, OTHERS
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.paths import templates

_METHODS = ("get", "post", "put", "patch", "delete")
_PARAMETER = re.compile(r"{(\w+)}")
_DEFINED = "#/components/schemas/"
#: Python's and Rust's forms of a character in a pattern, which JSON's readers do not know.
_CHARACTER = re.compile(r"\\x{([0-9a-f]{4})}")
#: Before the names of the kinds of answers.
_ANSWERS = "answers."
_DESCRIPTIONS = {"202": "Accepted.", answers.FAILURE: "Not done."}
_FAULT = {
    "type": "object",
    "description": "One key, named after the kind of the failure, such as badRequest or itemNotFound.",
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": {
        "type": "object",
        "required": ["code", "message"],
        "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
    },
}


class Route(NamedTuple):
    """``suffix`` is falcon's: the responder of ``GET`` is ``on_get``, or ``on_get_SUFFIX``."""

    path: str
    resource: object
    suffix: str | None = None

    @property
    def template(self) -> str:
        return templates.plain(self.path)

    def responders(self) -> Iterator[tuple[str, Callable[..., None]]]:
        """Yield each method that the route has, in small letters, and its responder."""
        for method in _METHODS:
            name = f"on_{method}_{self.suffix}" if self.suffix else f"on_{method}"
            found = getattr(self.resource, name, None)
            if found is not None:
                yield method, found


#: The form of the document is that of its specification.
_Document = JSONObject


class OpenAPI:
    """:param routes: all that are served beside this one and the page"""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = list(routes)

    @guard.public
    @answers.gives(answers.Answer(entire=_Document))
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """This document."""
        response.text = self._text
        response.content_type = falcon.MEDIA_JSON

    @functools.cached_property
    def _text(self) -> str:
        return json.dumps(document([*self._routes, Route(DOCUMENT, self)]))


def document(routes: Iterable[Route]) -> dict[str, object]:
    """Return the document of these routes."""
    served = [(route, method, each) for route in routes for method, each in route.responders()]
    found = [body for _, _, each in served if (body := bodies.taken_by(each)) is not None]
    schemas, components = _schemas((kind for body in found for kind in _kinds(body)), GenerateJsonSchema)
    given = [answer for _, _, each in served for answer in answers.given_by(each).values()]
    shown, shown_components = _schemas((kind for answer in given for kind in answer.kinds()), _Shown, _ANSWERS)
    rules = {rule.name: rule for rule in RULES}
    paths: dict[str, dict[str, object]] = {}
    for route, method, responder in served:
        rule = rules.get(guard.rule_of(responder))
        operation = {
            "operationId": f"{method} {route.template}",
            "summary": _summary(responder) or (rule.description if rule and rule.name != OTHERS else ""),
            "tags": [_tag(route.template)],
            "parameters": [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in _PARAMETER.findall(route.template)
            ]
            + [{"name": name, "in": "query", "schema": {"type": "string"}} for name in bodies.parameters_of(responder)],
            "responses": _responses(responder, shown),
        }
        if rule is None:
            operation["security"] = []
        else:
            is_call = route.template.startswith(CALLS)
            operation["x-policy-rule"] = f"{CALLS}/..." if is_call else rule.name
        body = bodies.taken_by(responder)
        if body is not None:
            content = {"application/json": {"schema": _body(body, schemas)}}
            operation["requestBody"] = {"required": True, "content": content}
        paths.setdefault(route.template, {})[method] = operation
    fault = {"description": "Not done.", "content": {"application/json": {"schema": _FAULT}}}
    schemes = {
        "basic": {"type": "http", "scheme": "basic"},
        "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token", "description": "A token of keystone."},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "fleet", "version": versions.release(), "description": _ABOUT},
        "paths": paths,
        "security": [{}, {"basic": []}, {"token": []}],
        "components": {
            "schemas": components | shown_components,
            "responses": {"Fault": fault},
            "securitySchemes": schemes,
        },
    }


_ABOUT = (
    "What fleet-api answers: OpenStack's compute API below /v2.1, its block storage API below /v3, its image API below "
    "/v2, and fleet's own below /fleet/v1. Some fields and parameters count from a microversion on: see the manual."
)


def _kinds(body: bodies.Body) -> list[object]:
    return [kind for kind in (*body.parts.values(), body.entire) if kind is not None]


def _schemas(
    found: Iterable[Any], generator: type[GenerateJsonSchema], prefix: str = ""
) -> tuple[dict[int, object], dict[str, object]]:
    """Return the schema of each kind by its id, and the definitions that they refer to. :param prefix: of their names"""
    kinds = {id(kind): kind for kind in found}
    adapters = [(number, "validation", pydantic.TypeAdapter(kind)) for number, kind in kinds.items()]
    made, shared = pydantic.TypeAdapter.json_schemas(
        adapters,  # type: ignore[arg-type]
        ref_template=f"{_DEFINED}{{model}}",
        schema_generator=generator,
    )
    schemas = {int(str(number)): _plain(schema, prefix) for (number, _mode), schema in made.items()}
    definitions = shared.get("$defs", {})
    return schemas, {prefix + _named(name): _plain(schema, prefix) for name, schema in definitions.items()}


class _Shown(GenerateJsonSchema):
    def typed_dict_schema(self, schema: Any) -> dict[str, object]:
        """Return the form of an object. It has no other keys, unless its kind allows them."""
        return {"additionalProperties": False, **super().typed_dict_schema(schema)}


def _responses(responder: Callable[..., None], schemas: Mapping[int, object]) -> dict[str, object]:
    """Return the schemas of the answers of a responder, by status."""
    fault: dict[str, object] = {"$ref": "#/components/responses/Fault"}
    found = {answers.FAILURE: fault}
    for status, answer in answers.given_by(responder).items():
        schema = _answer(answer, schemas)
        if status == answers.FAILURE:
            schema = {"anyOf": [schema, _FAULT]}
        content = {} if answer == answers.NOTHING else {"content": {answer.media_type: {"schema": schema}}}
        found[status] = {"description": _DESCRIPTIONS.get(status, "Done."), **content}
    return dict(sorted(found.items()))


def _answer(answer: answers.Answer, schemas: Mapping[int, Any]) -> dict[str, object]:
    if answer.entire is not None:
        found: dict[str, object] = schemas[id(answer.entire)]
        return found
    return {
        "type": "object",
        "required": list(answer.parts),
        "properties": {name: schemas[id(kind)] for name, kind in {**answer.parts, **answer.optional}.items()},
        "additionalProperties": False,
    }


def _named(name: str) -> str:
    """Return the name of a kind for readers: ``fleet_api__compute__groups___New`` is ``compute.groups.New``."""
    return ".".join(part.strip("_") for part in name.removeprefix("fleet_api__").split("__"))


def _plain(schema: object, prefix: str = "") -> object:
    """Return a schema with the names and the patterns that readers know. Patterns are keys, too."""
    if isinstance(schema, list):
        return [_plain(each, prefix) for each in schema]
    if not isinstance(schema, dict):
        return _pattern(schema) if isinstance(schema, str) else schema
    return {
        _pattern(name): f"{_DEFINED}{prefix}{_named(value.removeprefix(_DEFINED))}"
        if name == "$ref"
        else _plain(value, prefix)
        for name, value in schema.items()
    }


def _pattern(text: str) -> str:
    return _CHARACTER.sub(r"\\u\1", text)


def _body(body: bodies.Body, schemas: Mapping[int, Any]) -> dict[str, object]:
    if body.entire is not None:
        found: dict[str, object] = schemas[id(body.entire)]
        return found
    others: dict[str, object] = {name: {"type": ["object", "null"]} for name in body.others}
    forms = [
        {
            "type": "object",
            "required": [name],
            "properties": {name: {} if kind is None else schemas[id(kind)], **others},
            "additionalProperties": False,
        }
        for name, kind in body.parts.items()
    ]
    return forms[0] if len(forms) == 1 else {"oneOf": forms}


def _summary(responder: Callable[..., None]) -> str:
    """Return the first line of the docstring, without what it raises."""
    return (
        (inspect.getdoc(responder) or "")
        .split(":raises")[0]
        .split("\n\n")[0]
        .replace("``", "")
        .replace("\n", " ")
        .strip()
    )


def _tag(path: str) -> str:
    parts = path.strip("/").split("/")
    known = [each for each in parts if each not in ("v2.1", "v2", "v3", "fleet", "v1")]
    return known[0] if known else "discovery"
