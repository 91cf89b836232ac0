# SPDX-License-Identifier: Apache-2.0
"""Parts of long lists: ``limit`` and ``marker``, and the link to the next part.

Called by all resources that list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar
from urllib.parse import urlencode

import falcon

from fleet import errors
from fleet.json_codec import JSONMapping
from fleet_api.requests import answers, bodies, microversions

Item = TypeVar("Item")


def limit_of(request: falcon.Request, most: int) -> int:
    """Return the number of entries that are requested, at most ``most``; with 0 the list is empty."""
    asked = bodies.number(request, "limit")
    return most if asked is None else min(asked, most)


def ordered(
    request: falcon.Request,
    found: Sequence[Mapping[str, object]],
    known: Mapping[str, str],
    default: str,
    has_sort: bool = False,
) -> Sequence[JSONMapping]:
    """Return a whole list in the order that ``sort_key`` and ``sort_dir`` ask for; else as it is.

    The parameters are those of :func:`orders`.
    """
    for field, direction in reversed(orders(request, known, default, has_sort)):
        found = sorted(found, key=lambda each: _place(each[field]), reverse=direction == "desc")
    return found


def _place(value: object) -> tuple[bool, object]:
    """Return the key to sort by. Entries without a value come first; an empty text is a value."""
    return value is not None, 0 if value is None else value


def orders(
    request: falcon.Request, known: Mapping[str, str], default: str, has_sort: bool = False
) -> list[tuple[str, str]]:
    """Return the fields that a list is sorted by, each with ``asc`` or ``desc``. The first one decides first.

    :param known: names of fields, by the key that clients send
    :param default: the key if only a direction is asked for
    :param has_sort: ``sort=KEY:DIRECTION,KEY`` may be sent as well
    :raises errors.InvalidInput: naming a key or a direction that is not known
    """
    found: dict[str, str] = {}
    for name, direction in _orders(request, default, has_sort):
        if name not in known:
            raise errors.InvalidInput(field="sort_key", reason=f"must be one of {', '.join(known)}, not {name[:100]}")
        if direction not in ("asc", "desc"):
            raise errors.InvalidInput(field="sort_dir", reason=f"must be asc or desc, not {direction[:100]}")
        # A key that comes again decides nothing; sorting by it takes time all the same.
        found.setdefault(known[name], direction)
    return list(found.items())


def _orders(request: falcon.Request, default: str, has_sort: bool) -> list[tuple[str, str]]:
    """Return keys and directions, the first one decides first."""
    if has_sort and (given := request.get_param("sort")):
        parts = (each.strip().partition(":") for each in given.split(","))
        return [(name, direction or "desc") for name, _, direction in parts]
    keys, directions = request.get_param_as_list("sort_key") or [], request.get_param_as_list("sort_dir") or []
    if not keys and directions:
        keys = [default]
    return [(key, directions[place] if place < len(directions) else "asc") for place, key in enumerate(keys)]


def cut(request: falcon.Request, found: Sequence[Item], keys: Sequence[str], most: int) -> tuple[Sequence[Item], bool]:
    """Return the requested part of a whole list, and whether there is more.

    :param keys: what a marker names, for each of ``found``
    :raises errors.InvalidInput: the marker names none of them
    """
    start = 0
    if marker := request.get_param("marker"):
        if marker not in keys:
            raise errors.InvalidInput(field="marker", reason=f"is {marker[:100]}, which is not in the list")
        start = keys.index(marker) + 1
    end = start + limit_of(request, most)
    return found[start:end], start < end < len(found)


def next_link(
    request: falcon.Request, path: str, marker: str, service: microversions.Service = microversions.COMPUTE
) -> list[answers.Link]:
    """Return the link to the part after ``marker``."""
    return [microversions.link(request, following(request, path, marker), "next", service)]


def following(request: falcon.Request, path: str, marker: str) -> str:
    """Return the path of the part after ``marker``, with what else the request asks for."""
    return f"{path}?{urlencode({**request.params, 'marker': marker}, doseq=True)}"
