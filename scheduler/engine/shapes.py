# SPDX-License-Identifier: Apache-2.0
"""What was found out for earlier requests, for those that ask for the same.

Four of five real requests are like one before, and between two requests few hosts change. Requests are of one shape if
every filter and weigher gives the same :meth:`recall_key` for them.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from fleet.objects import RequestSpec
from scheduler.engine.plugin_watch import Supervision, is_ours
from scheduler.engine.standing import Standing
from scheduler.filters import BaseHostFilter, ColumnFilter
from scheduler.filters import recalls as filters_recall
from scheduler.weights import BaseHostWeigher, ColumnWeigher
from scheduler.weights import recalls as weighers_recall

#: Bytes of what is remembered; of very many hosts, two shapes at the least.
MOST_BYTES = 16 * 2**20
LEAST = 2


class Key(NamedTuple):
    """Who gives a part of the shape."""

    kind: str
    plugin: BaseHostFilter | BaseHostWeigher
    key: Callable[[RequestSpec], Hashable | None]
    ours: bool


def keys_of(filters: Sequence[BaseHostFilter], weighers: Sequence[BaseHostWeigher]) -> Sequence[Key] | None:
    """How to find a request's shape; None if somebody cannot say what his answer depends on, whatever the request."""
    found: list[Key] = []
    for each in filters:
        if not (isinstance(each, ColumnFilter) and filters_recall(each)):
            return None
        found.append(Key("Filter", each, each.recall_key, is_ours(each)))
    for weigher in weighers:
        if not (isinstance(weigher, ColumnWeigher) and weighers_recall(weigher)):
            return None
        if type(weigher).recall_key is not ColumnWeigher.recall_key:  # else it says the same of every request
            found.append(Key("Weigher", weigher, weigher.recall_key, is_ours(weigher)))
    return found


def shape_of(keys: Sequence[Key] | None, request: RequestSpec, supervision: Supervision) -> Hashable | None:
    """What the request's answer depends on, besides the hosts; None if somebody cannot say, so nothing is recalled."""
    if keys is None:
        return None
    parts = []
    for kind, plugin, key, ours in keys:
        part = key(request) if ours else supervision.ask(kind, plugin, key, request)
        if part is None:
            return None
        parts.append(part)
    return tuple(parts)


class Shapes:
    """Standings by the shape of the request. Belongs to one pipeline and table, and is guarded by whoever guards that."""

    def __init__(self) -> None:
        self._kept: collections.OrderedDict[Hashable, Standing] = collections.OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, shape: Hashable | None) -> Standing:
        """The standing of that shape, or one that knows nothing. It is no longer kept here: a failure must not spoil it."""
        if shape is None:
            return Standing()
        return self._kept.pop(shape, None) or Standing()

    def keep(self, shape: Hashable | None, standing: Standing) -> None:
        if shape is None:
            return
        standing.let_go()
        self._kept[shape] = standing
        most = max(LEAST, MOST_BYTES // max(standing.nbytes, 1))
        while len(self._kept) > most:
            self._kept.popitem(last=False)
