# SPDX-License-Identifier: Apache-2.0
"""The answers of a conductor have the types that its clients are promised."""

from __future__ import annotations

import functools
import json
from typing import Any

import pydantic
import typing_extensions

from fleet.rpc.clients import OperatorCalls

_EXACT = pydantic.ConfigDict(extra="forbid", strict=True)


def require(name: str, answer: object) -> None:
    """:raises pydantic.ValidationError: the answer to this operator call has a key or a type that clients do not know"""
    expected = _expected(name)
    if expected is not None:
        expected.validate_json(json.dumps([answer]))


@functools.cache
def _expected(name: str) -> pydantic.TypeAdapter[list[Any]] | None:
    method = getattr(OperatorCalls, name, None)
    if method is None:
        return None
    answer = typing_extensions.get_type_hints(method, include_extras=True)["return"]
    # A list, because a class of the answer takes no configuration from outside, and its members do.
    return pydantic.TypeAdapter(list[answer], config=_EXACT)  # type: ignore[valid-type]
