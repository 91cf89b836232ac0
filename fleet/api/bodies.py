# SPDX-License-Identifier: Apache-2.0
"""What clients send: JSON bodies with one key, and parameters of queries. Mistakes are named by field, with code 400."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator
from typing import Any, TypeVar

import falcon
import pydantic
from oslo_utils import strutils

from fleet import errors
from fleet.api.faults import Fault
from fleet.objects import fields

Value = TypeVar("Value")
#: ``__pydantic_config__`` of what clients send: a field that is not known is a mistake.
STRICT = pydantic.ConfigDict(extra="forbid")
_LARGEST_NUMBER = 10**9


def whole(request: falcon.Request) -> dict[str, Any]:
    """Return the body, a JSON object. :raises Fault:"""
    known = getattr(request.context, "body", None)
    if known is not None:
        found: dict[str, Any] = known
        return found
    text = request.bounded_stream.read()
    try:
        found = json.loads(text or b"null")
    except (ValueError, RecursionError):
        raise Fault(400, "The body is not JSON.") from None
    if not isinstance(found, dict):
        raise Fault(400, "The body must be a JSON object.")
    request.context.body = found
    return found


def part(request: falcon.Request, key: str, kind: type[Value], others: Collection[str] = ()) -> Value:
    """Return what the body has under its one key, parsed.

    :param others: keys that may stand beside it
    :raises Fault: errors.InvalidInput:
    """
    body = whole(request)
    for name in body:
        if name != key and name not in others:
            raise errors.InvalidInput(field=name[:100], reason="is not known here")
    if key not in body:
        raise errors.InvalidInput(field=key, reason="is required")
    return fields.parse(kind, body[key], key)


@contextlib.contextmanager
def naming(field: str) -> Iterator[None]:
    """Within this context, what is not found is a mistake in a field of the body. :raises errors.InvalidInput:"""
    try:
        yield
    except errors.NotFound as unknown:
        raise errors.InvalidInput(field=field, reason=unknown.message) from None


def flag(request: falcon.Request, name: str, default: bool = False) -> bool:
    """Return a parameter that is true or false. :raises errors.InvalidInput:"""
    given = request.get_param(name)
    if given is None:
        return default
    try:
        return bool(strutils.bool_from_string(given, strict=True))
    except ValueError:
        raise errors.InvalidInput(field=name, reason="must be true or false") from None


def number(request: falcon.Request, name: str) -> int | None:
    """Return a parameter that is a natural number; None if it is not given. :raises errors.InvalidInput:"""
    given = request.get_param(name)
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and int(given[:20]) <= _LARGEST_NUMBER):
        raise errors.InvalidInput(field=name, reason="must be a number, 0 or more")
    return int(given)
