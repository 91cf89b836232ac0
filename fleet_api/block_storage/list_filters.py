# SPDX-License-Identifier: Apache-2.0
"""Filters of lists of volumes and snapshots that the conductor does not have.

Called by the lists of both, which are beside it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping

import falcon

from fleet import errors
from fleet.json_codec import JSONMapping
from fleet_api.requests import bodies

Condition = Callable[[JSONMapping], bool]
#: Fields of both that a parameter must equal, as text.
_FIELDS: Mapping[str, str] = {"id": "uuid", "display_name": "name", "user_id": "user_id", "size": "size_gb"}
_METADATA, _BOOTABLE, _ZONE = "metadata", "bootable", "availability_zone"
OF_SNAPSHOTS = (*_FIELDS, _METADATA)
OF_VOLUMES = (*OF_SNAPSHOTS, _ZONE, _BOOTABLE)
_MOST_CHARACTERS = 4000


def conditions(request: falcon.Request, known: Collection[str]) -> list[Condition]:
    """Return the conditions that each listed object must meet.

    :param known: parameters of the list
    :raises errors.InvalidInput: naming a parameter
    """
    bodies.require_known(request, known)
    fields = {**_FIELDS, **({_ZONE: _ZONE} if _ZONE in known else {})}
    found = [_equals(field, value) for name, field in fields.items() if (value := request.get_param(name))]
    if given := request.get_param(_METADATA):
        wanted = _pairs(given).items()
        found.append(lambda each: wanted <= each["metadata"].items())
    if _BOOTABLE in known and request.has_param(_BOOTABLE):
        is_bootable = bodies.flag(request, _BOOTABLE)
        found.append(lambda each: bool(each.get("bootable")) == is_bootable)
    return found


def _equals(field: str, value: str) -> Condition:
    return lambda each: str(each[field]) == value


def _pairs(text: str) -> dict[str, str]:
    """Clients send a literal of Python. :raises errors.InvalidInput:"""
    try:
        found = ast.literal_eval(text) if len(text) <= _MOST_CHARACTERS else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(each, str) for pair in found.items() for each in pair):
        raise errors.InvalidInput(field=_METADATA, reason="must be texts by name, as in {'key': 'value'}")
    return found
