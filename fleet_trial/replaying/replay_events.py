# SPDX-License-Identifier: Apache-2.0
"""Arrivals and departures of what a replay has placed, in the order of the trace. The reports of replays read them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from fleet_trial.replaying.pacing import Request


class Result(Protocol):
    """The result for one instance or volume of request number ``request``.

    ``host`` is None if it was not placed; ``life_s`` is None if it has no end.
    """

    @property
    def request(self) -> int: ...

    @property
    def at_s(self) -> float: ...

    @property
    def host(self) -> str | None: ...

    @property
    def life_s(self) -> float | None: ...


ResultT = TypeVar("ResultT", bound=Result)


@dataclasses.dataclass(frozen=True)
class Event(Generic[ResultT]):
    """An arrival (``sign`` 1) or a departure (-1). A result that was refused has no host."""

    at: float
    sign: int
    result: ResultT


def have_times(requests: Sequence[Request]) -> bool:
    """Return whether the requests come at different times, and something of them leaves again."""
    spread = bool(requests) and requests[0].at_s < requests[-1].at_s
    return spread and any(life is not None for request in requests for life in request.lifetimes_s)


def events(results: Sequence[ResultT], has_times: bool, end: float) -> Iterator[Event[ResultT]]:
    """Yield the events until ``end`` in the order of time. At equal times, departures come before arrivals."""
    found = []
    for each in results:
        comes = each.at_s if has_times else float(each.request)
        found.append(Event(comes, 1, each))
        if has_times and each.host is not None and each.life_s is not None and comes + each.life_s <= end:
            found.append(Event(comes + each.life_s, -1, each))
    return iter(sorted(found, key=lambda event: (event.at, event.sign)))
