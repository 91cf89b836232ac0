# SPDX-License-Identifier: Apache-2.0
"""Reads a list in parts: what a conductor holds at once, and what it answers, has a limit, however long the list is.

The lists of instances and of volumes call it: users choose how much is stored with each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeVar

import orjson
from typing_extensions import TypedDict

from fleet import errors


class Listed(TypedDict):
    """The field by which a list is continued."""

    uuid: str


Shown = TypeVar("Shown", bound=Listed)


@dataclasses.dataclass(frozen=True)
class Bounds:
    """:param part: how many are read at once
    :param most_bytes: of the answer, about
    """

    part: int
    most_bytes: int


def read(
    part_of: Callable[[int, str | None], Sequence[Shown]],
    limit: int | None,
    marker: str | None,
    bounds: Bounds,
    things: str = "ones",
) -> list[Shown]:
    """Return those after the marker.

    :param part_of: returns so many of the list after the one with this uuid, as users see them
    :param things: what they are called in the refusal
    :raises errors.InvalidInput: they have more than ``most_bytes``
    """
    found: list[Shown] = []
    size = 0
    while True:
        wanted = bounds.part if limit is None else min(bounds.part, limit - len(found))
        part = part_of(wanted, marker)
        for each in part:
            size += len(orjson.dumps(each))
            if size > bounds.most_bytes and found:
                largest = f"an answer has at most {bounds.most_bytes // 2**20} MiB"
                reason = f"must be at most {len(found)} here: {largest}. Ask for the next {things} with marker"
                raise errors.InvalidInput(field="limit", reason=reason)
            found.append(each)
        if len(part) < wanted or len(found) == limit:
            return found
        marker = part[-1]["uuid"]
