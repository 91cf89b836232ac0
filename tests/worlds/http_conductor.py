# SPDX-License-Identifier: Apache-2.0
"""A conductor that answers the HTTP service from a table, for unit tests of the HTTP API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import falcon
import pytest

from fleet import errors
from fleet_api.requests.conductor import Conductor


class HttpConductor(Conductor):
    """``answers`` has for each method a value, an exception to raise, or a function of the arguments.

    ``asked`` are the calls in order. ``failure`` is raised in place of every answer.
    """

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.failure: Exception | None = None

    @property
    def writes(self) -> list[tuple[str, dict[str, Any]]]:
        """The calls of methods that neither list nor show."""
        return [call for call in self.asked if not call[0].startswith(("list_", "show_"))]

    def given(self, method: str, argument: str) -> list[Any]:
        """Return the values of an argument in the calls of ``method`` that had it."""
        return [arguments[argument] for called, arguments in self.asked if called == method and argument in arguments]

    def ask(self, request: falcon.Request, method: str, /, **arguments: Any) -> Any:
        self.asked.append((method, arguments))
        if method not in self.answers:
            # It is no Exception, which the service would answer with 500.
            pytest.fail(f"The conductor of this test has no answer for {method}.")
        answer = self.failure or self.answers[method]
        if isinstance(answer, Exception):
            raise answer
        return answer(**arguments) if callable(answer) else answer

    def create(self, request: falcon.Request, wanted: Any, token: str | None) -> Any:
        return self.ask(request, "create", wanted=wanted, token=token)

    def terminate(self, request: falcon.Request, uuid: str) -> None:
        self.ask(request, "terminate", uuid=uuid)

    def takes_passwords(self) -> bool:
        return self.answers["takes_passwords"]


def named(answer: Any, *names: str) -> Callable[..., Any]:
    """Answer calls for these names. Others are refused: there is no such thing."""

    def answering(name: str, **arguments: Any) -> Any:
        if name not in names:
            raise errors.NotFound(kind="Thing", name=name)
        return answer(**arguments) if callable(answer) else answer

    return answering
