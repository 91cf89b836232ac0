# SPDX-License-Identifier: Apache-2.0
"""Near misses: of the hosts that were dropped, those that lack the least, and what each of them lacks.

Called by :mod:`scheduler.why.refusal`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy

from fleet.json_codec import JSONMapping, JSONObject
from fleet.reasons import Reason
from scheduler.engine.decision import Refused
from scheduler.engine.filtering import Drop
from scheduler.engine.plugins import BaseHostFilter
from scheduler.why import shortfall
from scheduler.why.shortfall import Shortfall

#: How many near misses a refusal names.
NEAREST = 5


@dataclasses.dataclass(frozen=True)
class Miss:
    """A dropped host, the filter that dropped it, and what it lacks (as :meth:`Shortfall.describe` returns it).

    :param name: the host in a sentence
    """

    name: str
    host: str
    node: str
    filter: str
    reason: Reason
    said: str
    shortfalls: Sequence[JSONMapping] = ()

    @property
    def text(self) -> str:
        said = "; and ".join(each["text"] for each in self.shortfalls) or self.said or f"{self.filter} says no"
        return f"{self.name} {said}" if self.shortfalls or self.said else f"{self.name}: {said}"

    def to_wire(self) -> JSONObject:
        return {
            "host": self.host,
            "node": self.node,
            "filter": self.filter,
            "reason_code": self.reason.value,
            "text": self.text,
            "shortfalls": [dict(each) for each in self.shortfalls],
        }


class DroppedHosts:
    """The hosts that filters dropped, one element per host in arrays, with the numbers that filters have of them.

    :param drops: the drops to look at, some of those of ``refused``
    :param numbers: filters that have numbers, each with its shortfall of these hosts
    """

    def __init__(
        self, refused: Refused, drops: Sequence[Drop], numbers: Sequence[tuple[BaseHostFilter, Shortfall]]
    ) -> None:
        self._refused = refused
        self._drops = drops
        self._numbers = numbers
        self._rows = numpy.concatenate([drop.rows for drop in drops])
        self._by = [drop.by for drop in drops for _row in range(len(drop.rows))]
        #: Ids of filters: a plugin of a user may define equality as it likes.
        self._with_numbers = {id(each) for each, _numbers in numbers}

    def never(self) -> numpy.ndarray:
        """Return a mask of the hosts that could not take one instance even if they were empty."""
        never = numpy.zeros(len(self._rows), dtype=bool)
        for _each, numbers in self._numbers:
            never |= numbers.never()
        return never

    def nearest(self) -> list[Miss]:
        """Return the hosts that lack the smallest part of what is asked, then hosts without numbers, last dropped first."""
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
        """Return what each host lacks as a fraction of what is asked, added up over the resources."""
        lack = numpy.zeros(len(self._rows))
        for _each, numbers in self._numbers:
            lack = lack + numbers.lacks() / max(numbers.asked, 1.0)
        return lack

    def _miss(self, position: int) -> Miss:
        by, row = self._by[position], int(self._rows[position])
        told: dict[str, JSONMapping] = {}
        for each, numbers in self._numbers if id(by) in self._with_numbers else ():
            if numbers.lacks()[position] > 0:
                # Two filters over the same resource have equal texts.
                described = self._refused.supervision.explained(each, numbers.describe, position)
                told.update((shortfall["text"], shortfall) for shortfall in described or ())
        one = self._refused.hosts.subset(numpy.array([row]))
        said = "" if told else self._refused.supervision.explained(by, by.objection, one, self._refused.request)
        said = said if isinstance(said, str) else ""
        key, domain = self._refused.hosts.key(row), self._refused.hosts.domain
        return Miss(domain.words.place_name(key), *key, type(by).__name__, by.reason, said, list(told.values()))


def dropped_hosts(refused: Refused, drops: Sequence[Drop]) -> DroppedHosts:
    """Ask all filters of the request for numbers about the hosts of these drops."""
    hosts = refused.hosts.subset(numpy.concatenate([drop.rows for drop in drops]))

    def ask(each: BaseHostFilter) -> Shortfall | None:
        return shortfall.checked(each.shortfall(hosts, refused.request), len(hosts))

    asked = [(each, refused.supervision.explained(each, ask, each)) for each in refused.filters]
    return DroppedHosts(refused, drops, [(each, found) for each, found in asked if found is not None])
