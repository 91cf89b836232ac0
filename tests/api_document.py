# SPDX-License-Identifier: Apache-2.0
"""Holds answers of the API against its document."""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Iterator
from typing import Any
from unittest import mock

import falcon
import jsonschema
import orjson

from fleet_api import conf as api_conf
from fleet_api.application import routes
from fleet_api.own.openapi import document
from fleet_api.requests.page import Browsers
from fleet_api.requests.paths import templates
from tests.configuration import configuration

_PARAMETER = re.compile(r"{\w+}")
_FIRST_FAILURE = 400
#: Characters of a message.
_MOST = 400


class ApiDocument:
    def __init__(self) -> None:
        self.document = document(routes(None, configuration(api_conf.register_opts), None))  # type: ignore[arg-type]
        self._paths = [
            (re.compile(_PARAMETER.sub("[^/]+", path)), path)
            # A path without parameters is looked at first.
            for path in sorted(self.document["paths"], key=lambda path: path.count("{"))
        ]

    def template(self, path: str) -> str | None:
        """Return the path of the document that a request's path has; None: it has none."""
        return next((found for pattern, found in self._paths if pattern.fullmatch(path)), None)

    def mistakes(self, method: str, path: str, status: int, body: Any) -> list[str]:
        """Return how an answer differs from the document. :param path: with the names of parameters"""
        operation = self.document["paths"].get(path, {}).get(method.lower())
        if operation is None:
            return []
        name = f"{method} {path}: {status}"
        known = operation["responses"].get(str(status))
        if known is None and status < _FIRST_FAILURE:
            return [f"{name} is not in the document"]
        schema = _content(self.document, known or operation["responses"]["default"])
        if schema is None:
            return [] if body is None else [f"{name} has a body: {str(body)[:_MOST]}"]
        if body is None and status < _FIRST_FAILURE and not schema.get("required"):
            # Of several actions, some have an answer.
            return []
        return [
            f"{name} {each.json_path}: {each.message[:_MOST]}"
            for each in self._validator(path, method, status).iter_errors(body)
        ]

    @contextlib.contextmanager
    def held(self) -> Iterator[list[str]]:
        """Hold each answer of applications that are made within this context against the document.

        :return: the mistakes so far
        """
        processed, wrong = Browsers.process_response, []

        def process_response(
            page: Browsers, request: falcon.Request, response: falcon.Response, resource: object, succeeded: bool
        ) -> None:
            processed(page, request, response, resource, succeeded)
            if request.uri_template is not None and response.stream is None and response.text is None:
                body = None if response.media is None else json.loads(orjson.dumps(response.media))
                wrong.extend(self.mistakes(request.method, templates.of(request), response.status_code, body))

        with mock.patch.object(Browsers, "process_response", process_response):
            yield wrong

    @functools.cache  # noqa: B019 - one document a process
    def _validator(self, path: str, method: str, status: int) -> jsonschema.Draft202012Validator:
        responses = self.document["paths"][path][method.lower()]["responses"]
        schema = _content(self.document, responses.get(str(status)) or responses["default"])
        return jsonschema.Draft202012Validator({**(schema or {}), "components": self.document["components"]})


def _content(api: dict[str, Any], response: dict[str, Any]) -> dict[str, Any] | None:
    if "$ref" in response:
        response = api["components"]["responses"][response["$ref"].rpartition("/")[2]]
    found: dict[str, Any] | None = next((each["schema"] for each in response.get("content", {}).values()), None)
    return found
