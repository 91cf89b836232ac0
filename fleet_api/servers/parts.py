# SPDX-License-Identifier: Apache-2.0
"""Asks the conductor for long lists of servers in parts, each of a size that an answer may have.

Called by :mod:`fleet_api.servers.servers`, :mod:`fleet_api.servers.usage` and :mod:`fleet_api.network.ports`. Users
choose how much their servers have stored with them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import orjson

from fleet import errors
from fleet.json_codec import JSONMapping, JSONObject

Instance = JSONMapping
#: Instances that are asked for at first, and at most.
FIRST, _MOST = 100, 1000
#: Of an answer of the conductor, about.
_BYTES = 8 * 2**20
Listed = Callable[..., Sequence[Instance]]


def every(listed: Listed, filters: JSONMapping) -> Iterator[Sequence[Instance]]:
    """Yield a whole list. The parameters are those of :func:`of`."""
    wanted, more = FIRST, JSONObject()
    while True:
        part, wanted = of(listed, filters, wanted, more)
        yield part
        if len(part) < wanted:
            return
        more = {"marker": part[-1]["uuid"]}
        wanted = following(part)


def of(listed: Listed, filters: JSONMapping, wanted: int, more: JSONMapping) -> tuple[Sequence[Instance], int]:
    """Return a part of a list, and for how many it was asked: fewer if they are so large that no answer has them all.

    :param listed: asks the conductor
    :param more: the marker
    """
    while True:
        try:
            return _known(functools.partial(listed, filters=filters, limit=wanted, **more)), wanted
        except errors.InvalidInput as refused:
            if refused.field != "limit" or wanted == 1:
                raise
            wanted = max(wanted // 4, 1)


def following(part: Sequence[Instance]) -> int:
    """Return how many instances to ask for next, by the size of those that came."""
    each = len(orjson.dumps(part)) // len(part) + 1
    return min(max(_BYTES // each, 1), _MOST)


def _known(listed: Callable[[], Sequence[Instance]]) -> Sequence[Instance]:
    """Return a part of a list; empty if there is no such host: a filter that nothing fits is no mistake.

    :raises errors.InvalidInput: the marker is no instance
    """
    try:
        return listed()
    except errors.NotFound as unknown:
        if unknown.kind == "Host":
            return ()
        raise errors.InvalidInput(field="marker", reason=f"is unknown: {unknown.message}") from None
