# SPDX-License-Identifier: Apache-2.0
"""Endpoints: checks the arguments of a remote call, and returns expected errors without a traceback.

The managers of all daemons decorate their methods with it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import oslo_messaging
import pydantic

from fleet import errors, json_codec
from fleet.objects import fields
from fleet.rpc import versions
from fleet.rpc.trust import message_size

#: Limits of a request as JSON: far more than real requests have, far less than what harms a server.
MAX_REQUEST_BYTES = 256 * 1024
#: Of what a conductor makes for a scheduler. It names each host that a guest cannot reach, and a plan has all guests of a
#: host.
MAX_MADE_BYTES = 15 * 2**20
MAX_REQUEST_DEPTH = 32

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


def expected_errors(method: Endpoint) -> Endpoint:
    """Return a method's ``FleetError`` to the caller as an answer: without a traceback in the log or on the wire."""

    @functools.wraps(method)
    def answered(*args: object, **kwargs: object) -> object:
        try:
            return method(*args, **kwargs)
        except errors.FleetError as refusal:
            expected = oslo_messaging.ExpectedException()
            refusal.__cause__ = refusal.__context__ = None
            expected.exc_info = (type(refusal), refusal, None)
            raise expected from None

    return answered  # type: ignore[return-value]


def served(topic: str, namespace: str | None = None) -> oslo_messaging.Target:
    """Return the ``target`` of an endpoint: one namespace of a topic, in the version that this release serves."""
    return oslo_messaging.Target(namespace=namespace, version=versions.CURRENT[topic])


def internal(method: Endpoint) -> Endpoint:
    """Mark a public method of an endpoint that only its own process calls: no message reaches it."""
    method.is_internal = True  # type: ignore[attr-defined]
    return method


def endpoint(method: Endpoint) -> Endpoint:
    """Mark a method as remotely callable. Arguments are checked against its annotations, unknown ones are ignored.

    A wrong argument is answered with an ``InvalidInput`` that names it. Other errors: see :func:`expected_errors`.
    """
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(method, eval_str=True).parameters.items()
        if name not in ("self", "context")
    }
    checked: Callable[..., object] = method
    if any(parameter.annotation is not Any for parameter in parameters.values()):
        checked = pydantic.validate_call(config=pydantic.ConfigDict(arbitrary_types_allowed=True))(method)
    needed = [name for name, parameter in parameters.items() if parameter.default is inspect.Parameter.empty]

    @functools.wraps(method)
    def called(self: object, context: object, /, **arguments: object) -> object:
        for name in needed:
            if name not in arguments:
                raise errors.InvalidInput(field=name, reason="is required")
        try:
            return checked(self, context, **{name: value for name, value in arguments.items() if name in parameters})
        except pydantic.ValidationError as invalid:
            raise fields.invalid_input(invalid) from None

    return expected_errors(called)  # type: ignore[return-value]


def require_size(request: object, field: str, most: int = MAX_REQUEST_BYTES) -> None:
    """Check a request before it is read.

    :param most: bytes that are allowed
    :raises errors.InvalidInput: it is too large, nested too deeply, or has a value that could not be stored
    """
    json_codec.require(request, field)
    try:
        text = message_size.text_of(request, MAX_REQUEST_DEPTH)
    except message_size.TooDeep:
        raise errors.InvalidInput(field=field, reason="is nested too deeply") from None
    if len(text) > most:
        raise errors.InvalidInput(field=field, reason=f"is {len(text)} bytes, at most {most} are allowed")
