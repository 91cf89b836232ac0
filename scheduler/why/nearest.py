# SPDX-License-Identifier: Apache-2.0
"""Of the hosts that were dropped, those that came nearest, and what each of them lacks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from fleet.objects import RequestSpec
from fleet.reasons import Reason
from scheduler.engine.candidates import Candidates
from scheduler.engine.filtering import Drop
from scheduler.engine.plugin_watch import Supervision
from scheduler.filters import BaseHostFilter
from scheduler.why import shortfall
from scheduler.why.shortfall import Shortfall

#: How many are told.
NEAREST = 5


@dataclasses.dataclass(frozen=True)
class Miss:
    """A host that was dropped: by which filter, and what it lacks (of :meth:`Shortfall.describe`'s form)."""

    host: str
    node: str
    filter: str
    reason: Reason
    said: str
    shortfalls: Sequence[Mapping[str, Any]] = ()

    @property
    def text(self) -> str:
        said = "; and ".join(each["text"] for each in self.shortfalls) or self.said or f"{self.filter} says no"
        return f"{self.host} {said}" if self.shortfalls or self.said else f"{self.host}: {said}"

    def to_wire(self) -> dict[str, Any]:
        return {
            "host": self.host,
            "node": self.node,
            "filter": self.filter,
            "reason_code": self.reason.value,
            "text": self.text,
            "shortfalls": [dict(each) for each in self.shortfalls],
        }


class Measured:
    """Dropped hosts, one element per host in arrays, with what each filter that has numbers says of them."""

    def __init__(
        self,
        hosts: Candidates,
        request: RequestSpec,
        drops: Sequence[Drop],
        numbers: Sequence[tuple[BaseHostFilter, Shortfall]],
        supervision: Supervision,
    ) -> None:
        self._hosts = hosts
        self._request = request
        self._drops = drops
        self._numbers = numbers
        self._supervision = supervision
        self._rows = numpy.concatenate([drop.rows for drop in drops])
        self._by = [drop.by for drop in drops for _row in range(len(drop.rows))]
        #: Of filters; a user's own may compare as it likes.
        self._with_numbers = {id(each) for each, _numbers in numbers}

    def never(self) -> numpy.ndarray:
        """Which of the hosts could not take one instance even if they were empty."""
        never = numpy.zeros(len(self._rows), dtype=bool)
        for _each, numbers in self._numbers:
            never |= numbers.never()
        return never

    def nearest(self) -> list[Miss]:
        """Those that lack the smallest part of what is asked; behind them, those without numbers, the last dropped first."""
        counts = numpy.array([id(by) in self._with_numbers for by in self._by], dtype=bool)
        positions = numpy.flatnonzero(counts)
        order = numpy.argsort(self._relative_lack()[positions], kind="stable")
        chosen = positions[order][:NEAREST].tolist()
        end = len(self._rows)
        for drop in reversed(self._drops):
            end -= len(drop.rows)
            if id(drop.by) not in self._with_numbers:
                chosen += list(range(end, end + len(drop.rows)))[: NEAREST - len(chosen)]
        return [self._miss(position) for position in chosen]

    def _relative_lack(self) -> numpy.ndarray:
        """What is missing as parts of what is asked, added up over the resources."""
        lack = numpy.zeros(len(self._rows))
        for _each, numbers in self._numbers:
            lack = lack + numbers.lacks() / max(numbers.asked, 1.0)
        return lack

    def _miss(self, position: int) -> Miss:
        by, row = self._by[position], int(self._rows[position])
        told: dict[str, Mapping[str, Any]] = {}
        for each, numbers in self._numbers if id(by) in self._with_numbers else ():
            if numbers.lacks()[position] > 0:
                # Two filters that look at the same thing say so once.
                described = self._supervision.explained(each, numbers.describe, position)
                told.update((shortfall["text"], shortfall) for shortfall in described or ())
        one = self._hosts.subset(numpy.array([row]))
        said = "" if told else self._supervision.explained(by, by.objection, one, self._request)
        said = said if isinstance(said, str) else ""
        return Miss(*self._hosts.key(row), type(by).__name__, by.reason, said, list(told.values()))


def measure(
    hosts: Candidates,
    request: RequestSpec,
    filters: Sequence[BaseHostFilter],
    drops: Sequence[Drop],
    supervision: Supervision,
) -> Measured:
    """Ask all ``filters`` for numbers of the hosts that were dropped.

    :param hosts: all rows, with what the request has picked
    """
    dropped = hosts.subset(numpy.concatenate([drop.rows for drop in drops]))

    def ask(each: BaseHostFilter) -> Shortfall | None:
        return shortfall.checked(each.shortfall(dropped, request), len(dropped))

    asked = [(each, supervision.explained(each, ask, each)) for each in filters]
    numbers = [(each, found) for each, found in asked if found is not None]
    return Measured(hosts, request, drops, numbers, supervision)
