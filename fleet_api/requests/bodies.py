# SPDX-License-Identifier: Apache-2.0
"""Parses what clients send: JSON bodies with one key, and parameters of queries.

Called by all resources. Mistakes are named by field, with code 400.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

import falcon
import pydantic
from oslo_utils import strutils, timeutils

from fleet import errors, json_codec
from fleet.json_codec import JSONObject
from fleet.objects import fields
from fleet_api.requests.faults import Fault

Value = TypeVar("Value")
Responder = Callable[..., None]
#: ``__pydantic_config__`` of what clients send: a field that is not known is a mistake.
STRICT = pydantic.ConfigDict(extra="forbid")
_LARGEST_NUMBER = 10**9
#: Leading zeros included. int() refuses thousands, and takes long for hundreds.
_MOST_DIGITS = 20


@dataclasses.dataclass(frozen=True)
class Body:
    """The body that a responder accepts: a JSON object with one of the keys of ``parts``, beside which ``others`` may stand.

    A part's kind is what :func:`fleet.objects.fields.parse` takes; None is an empty part. With ``entire`` the whole object
    is of that kind.
    """

    parts: Mapping[str, object] = dataclasses.field(default_factory=dict)
    others: Collection[str] = ()
    entire: object = None


def takes(body: Body) -> Callable[[Responder], Responder]:
    """Declare what a responder takes: it can parse nothing else, and the document of the API has it."""

    def decorate(responder: Responder) -> Responder:
        @functools.wraps(responder)
        def declared(resource: object, request: falcon.Request, response: falcon.Response, **params: str) -> None:
            request.context.takes = body
            responder(resource, request, response, **params)

        declared.body = body  # type: ignore[attr-defined]
        return declared

    return decorate


def asks(*parameters: str) -> Callable[[Responder], Responder]:
    """Declare the parameters of the query that a responder reads: the document of the API has them."""

    def decorate(responder: Responder) -> Responder:
        responder.parameters = parameters  # type: ignore[attr-defined]
        return responder

    return decorate


def require_known(request: falcon.Request, parameters: Collection[str]) -> None:
    """Refuse a parameter that a list does not have: a list of everything may end in the deletion of everything.

    :raises errors.InvalidInput: naming it
    """
    for name in request.params:
        if name not in parameters:
            raise errors.InvalidInput(field=name[:100], reason="is no parameter of this list")


def parameters_of(responder: Callable[..., None]) -> tuple[str, ...]:
    """Return the names of the parameters of the query that a responder reads."""
    return getattr(responder, "parameters", ())


def taken_by(responder: Callable[..., None]) -> Body | None:
    """Return the body that a responder takes; None if it takes none."""
    return getattr(responder, "body", None)


def whole(request: falcon.Request) -> JSONObject:
    """Return the body. :raises Fault: it is no JSON object, or too large"""
    known = getattr(request.context, "body", None)
    if known is not None:
        found: dict[str, object] = known
        return found
    text = request.bounded_stream.read()
    try:
        # What could not be stored is refused here, before anything is asked of others.
        found = json_codec.parse(text or b"null", "body")
    except ValueError:
        raise Fault(400, "The body is not JSON.") from None
    if not isinstance(found, dict):
        raise Fault(400, "The body must be a JSON object.")
    request.context.body = found
    return found


def part(request: falcon.Request, key: str, kind: type[Value]) -> Value:
    """Return the value under the only key of the body, parsed.

    :raises Fault: errors.InvalidInput:
    """
    declared = _declared(request)
    if declared.parts.get(key) is not kind:
        raise TypeError(f"{key} is not declared as {kind}")
    body = whole(request)
    for name in body:
        if name != key and name not in declared.others:
            raise errors.InvalidInput(field=name[:100], reason="is not known here")
    if key not in body:
        raise errors.InvalidInput(field=key, reason="is required")
    return fields.parse(kind, body[key], key)


def entire(request: falcon.Request, kind: type[Value], name: str = "body") -> Value:
    """Return the whole body, parsed. :param name: the prefix of a wrong field. :raises Fault: errors.InvalidInput:"""
    if _declared(request).entire is not kind:
        raise TypeError(f"the body is not declared as {kind}")
    return fields.parse(kind, whole(request), name)


def _declared(request: falcon.Request) -> Body:
    found: Body = getattr(request.context, "takes", None) or Body()
    return found


@contextlib.contextmanager
def naming(field: str) -> Iterator[None]:
    """Report an object that is not found in this block as a mistake in a field of the body. :raises errors.InvalidInput:"""
    try:
        yield
    except errors.NotFound as unknown:
        raise errors.InvalidInput(field=field, reason=f"cannot be used: {unknown.message}") from None


def flag(request: falcon.Request, name: str, default: bool = False) -> bool:
    """Return a parameter that is true or false. :raises errors.InvalidInput:"""
    given = request.get_param(name)
    if given is None:
        return default
    try:
        return bool(strutils.bool_from_string(given, strict=True))
    except ValueError:
        raise errors.InvalidInput(field=name, reason="must be true or false") from None


def moment(request: falcon.Request, name: str) -> datetime.datetime | None:
    """Return a parameter that is a time, in naive UTC; None if it is not given. :raises errors.InvalidInput:"""
    given = request.get_param(name)
    if given is None:
        return None
    try:
        found: datetime.datetime = timeutils.normalize_time(timeutils.parse_isotime(given))
        return found
    except (ValueError, OverflowError):
        raise errors.InvalidInput(field=name, reason="must be a time in ISO 8601") from None


def number(request: falcon.Request, name: str) -> int | None:
    """Return a parameter that is a natural number; None if it is not given. :raises errors.InvalidInput:"""
    given = request.get_param(name)
    if given is None:
        return None
    found = int(given) if given.isascii() and given.isdigit() and len(given) <= _MOST_DIGITS else -1
    if not 0 <= found <= _LARGEST_NUMBER:
        raise errors.InvalidInput(field=name, reason=f"must be a whole number from 0 to {_LARGEST_NUMBER}")
    return found
