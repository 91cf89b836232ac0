# SPDX-License-Identifier: Apache-2.0
"""The traits that a flavor and an image require of a compute node, or forbid.

The endpoint for nova's messages reads them in each request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from fleet import errors
from fleet.json_codec import JSONObject
from fleet.objects import fields
from scheduler.nova.request import NovaRequest

_PREFIX = "trait:"
_REQUIRED, _FORBIDDEN = "required", "forbidden"
#: Key of ``request_spec`` in the requests of an operator's commands.
_KEY = "traits"


def of_request(flavor: Mapping[str, object], image: object) -> tuple[frozenset[str], frozenset[str]]:
    """Return the traits that are required, and those that are forbidden.

    :param image: an image with ``properties``, or None
    :raises errors.InvalidInput: a value is neither ``required`` nor ``forbidden``
    """
    found: dict[str, set[str]] = {_REQUIRED: set(), _FORBIDDEN: set()}
    specs = flavor.get("extra_specs") or {}
    for key, value in specs.items() if isinstance(specs, Mapping) else ():
        if not str(key).startswith(_PREFIX):
            continue
        if value not in found:
            field = f"flavor.extra_specs.{key}"[:255]
            raise errors.InvalidInput(field=field, reason="must be required or forbidden")
        found[value].add(str(key).removeprefix(_PREFIX))
    properties = image.get("properties") if isinstance(image, Mapping) else None
    named = properties.get("traits_required") if isinstance(properties, Mapping) else None
    found[_REQUIRED].update(fields.parse(list[fields.Name], named or [], "image.properties.traits_required"))
    return frozenset(found[_REQUIRED]), frozenset(found[_FORBIDDEN])


def noted(required: frozenset[str], forbidden: frozenset[str]) -> JSONObject:
    """Return the traits as a part of ``request_spec``, for :func:`restored`."""
    return {_KEY: {_REQUIRED: sorted(required), _FORBIDDEN: sorted(forbidden)}}


def restored(request: NovaRequest) -> NovaRequest:
    """Return the request with the traits that its ``request_spec`` notes. :raises errors.InvalidInput:"""
    given = fields.parse(dict[str, list[fields.Name]], request.request_spec.get(_KEY, {}), f"request_spec.{_KEY}")
    return dataclasses.replace(
        request,
        required_traits=frozenset(given.get(_REQUIRED, ())),
        forbidden_traits=frozenset(given.get(_FORBIDDEN, ())),
    )
