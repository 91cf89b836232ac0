# SPDX-License-Identifier: Apache-2.0
"""Parts of long lists: ``limit`` and ``marker``, and the link to the next part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar
from urllib.parse import urlencode

import falcon

from fleet import errors
from fleet_api.requests import answers, bodies, microversions

Item = TypeVar("Item")


def limit_of(request: falcon.Request, most: int) -> int:
    """Return how many are asked for, at most ``most``; 0 asks for all that one answer may have."""
    return min(bodies.number(request, "limit") or most, most)


def cut(request: falcon.Request, found: Sequence[Item], keys: Sequence[str], most: int) -> tuple[Sequence[Item], bool]:
    """Return the part of a whole list that is asked for, and whether there is more.

    :param keys: what a marker names, for each of ``found``
    :raises errors.InvalidInput: the marker names none of them
    """
    start = 0
    if marker := request.get_param("marker"):
        if marker not in keys:
            raise errors.InvalidInput(field="marker", reason=f"is {marker[:100]}, which is not in the list")
        start = keys.index(marker) + 1
    end = start + limit_of(request, most)
    return found[start:end], end < len(found)


def next_link(
    request: falcon.Request, path: str, marker: str, service: microversions.Service = microversions.COMPUTE
) -> list[answers.Link]:
    """Return the link to what comes after ``marker``."""
    parameters = {**request.params, "marker": marker}
    return [microversions.link(request, f"{path}?{urlencode(parameters, doseq=True)}", "next", service)]
