# SPDX-License-Identifier: Apache-2.0
"""Why hosts ran out: the dominant reason, the sentence that says it, and the hosts that came nearest, with numbers.

Computed on refusal only, from the masks that the filters left and the columns as they are: call it before the next
change.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy
from oslo_log import log as logging

from fleet.objects import RequestSpec
from fleet.reasons import Reason
from scheduler.candidates import Candidates
from scheduler.filtering import Drop
from scheduler.filters import BaseHostFilter
from scheduler.shortfall import Shortfall

LOG = logging.getLogger(__name__)
Answer = TypeVar("Answer")

#: How many of the hosts that came nearest are told.
NEAREST = 5

_SENTENCES = {
    Reason.CAPACITY: "{count} of {judged} hosts that the request allows are too full",
    Reason.NEVER_FITS: "no host that the request allows could take it even when empty",
    Reason.POLICY: "the request's own conditions rule out all of {considered} hosts",
    Reason.HOSTS_DOWN: "{count} of {judged} hosts that the request allows are disabled or down",
    Reason.RACE_LOST: "{count} of {judged} hosts that the request allows have been tried in vain",
}


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


@dataclasses.dataclass(frozen=True)
class Refusal:
    """``dropped``: how many hosts each filter was the first to drop, over all instances of the request."""

    code: Reason
    sentence: str
    nearest: Sequence[Miss] = ()
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def to_wire(self) -> dict[str, Any]:
        return {
            "reason_code": self.code.value,
            "dropped": dict(self.dropped),
            "nearest": [miss.to_wire() for miss in self.nearest],
        }


def of_none_considered(known: int) -> Refusal:
    """No filter was asked: there are no hosts at all, or the request itself excludes them.

    :param known: how many hosts there are
    """
    if not known:
        return Refusal(Reason.HOSTS_DOWN, "There are not enough hosts available: no host is known.")
    sentence = f"There are not enough hosts available: the request excludes all of {known} hosts by name."
    return Refusal(Reason.POLICY, sentence)


def of_drops(
    hosts: Candidates, request: RequestSpec, filters: Sequence[BaseHostFilter], drops: Sequence[Drop], considered: int
) -> Refusal:
    """Every considered host was dropped by a filter, in this or an earlier round of the request.

    :param hosts: all rows, with what the request has picked
    """
    judged = [drop for drop in drops if drop.by.reason is not Reason.POLICY] or list(drops)
    rows = numpy.concatenate([drop.rows for drop in judged])
    measured = [each for each in filters if (_numbers(each, hosts.subset(rows), request)) is not None]
    code = dominant(hosts, request, drops, measured)
    dropped = collections.Counter[str]()
    for drop in drops:
        dropped[_name(drop.by)] += len(drop.rows)
    nearest = _nearest(hosts, request, judged, measured)
    count = sum(len(drop.rows) for drop in judged if drop.by.reason is code)
    cause = _SENTENCES.get(code, "filters say no").format(count=count, judged=len(rows), considered=considered)
    counts = ", ".join(f"{name} {number}" for name, number in dropped.items())
    told = f" Nearest: {nearest[0].text}." if nearest else ""
    sentence = f"There are not enough hosts available: {cause} (dropped by {counts}).{told}"
    return Refusal(code, sentence, nearest, dropped)


def dominant(
    hosts: Candidates, request: RequestSpec, drops: Sequence[Drop], measured: Sequence[BaseHostFilter]
) -> Reason:
    """The one reason among those of all drops.

    What the request's own conditions exclude does not speak for the others: POLICY is the reason only if it leaves no
    host. Of the others NEVER_FITS needs all of them to agree, and else the most frequent reason wins, of equal ones
    that of the later filter.
    """
    judged = [drop for drop in drops if drop.by.reason is not Reason.POLICY]
    if not judged:
        return Reason.POLICY
    rows = numpy.concatenate([drop.rows for drop in judged])
    never = numpy.zeros(len(rows), dtype=bool)
    for each in measured:
        numbers = _numbers(each, hosts.subset(rows), request)
        never |= numbers.never() if numbers is not None else False
    if never.all():
        return Reason.NEVER_FITS
    counts = collections.Counter[Reason]()
    for drop in judged:
        counts[drop.by.reason] += len(drop.rows)
    return max(reversed(counts), key=lambda reason: counts[reason])


def _nearest(
    hosts: Candidates, request: RequestSpec, drops: Sequence[Drop], measured: Sequence[BaseHostFilter]
) -> list[Miss]:
    """Those that lack the smallest part of what is asked; behind them, those without numbers, the last dropped first."""
    with_numbers = [drop for drop in drops if drop.by in measured]
    chosen: list[tuple[int, BaseHostFilter]] = []
    if with_numbers:
        rows = numpy.concatenate([drop.rows for drop in with_numbers])
        by = [drop.by for drop in with_numbers for _row in range(len(drop.rows))]
        lack = _relative_lack(hosts.subset(rows), request, measured)
        chosen = [(int(rows[number]), by[number]) for number in numpy.argsort(lack, kind="stable")[:NEAREST].tolist()]
    for drop in reversed([drop for drop in drops if drop.by not in measured]):
        chosen += [(row, drop.by) for row in drop.rows[: NEAREST - len(chosen)].tolist()]
    return [_miss(hosts, request, row, by, measured) for row, by in chosen]


def _relative_lack(hosts: Candidates, request: RequestSpec, measured: Sequence[BaseHostFilter]) -> numpy.ndarray:
    """What is missing as parts of what is asked, added up over the resources."""
    lack = numpy.zeros(len(hosts))
    for each in measured:
        numbers = _numbers(each, hosts, request)
        if numbers is not None:
            lack = lack + numbers.lacks() / max(numbers.asked, 1.0)
    return lack


def _miss(
    hosts: Candidates, request: RequestSpec, row: int, by: BaseHostFilter, measured: Sequence[BaseHostFilter]
) -> Miss:
    one = hosts.subset(numpy.array([row]))
    shortfalls = []
    for each in measured if by in measured else ():
        numbers = _numbers(each, one, request)
        if numbers is not None and numbers.lacks()[0] > 0:
            shortfalls.append(numbers.describe(0))
    said = "" if shortfalls else _ask(by, lambda: by.objection(one, request)) or ""
    return Miss(*hosts.key(row), _name(by), by.reason, said, shortfalls)


def _numbers(each: BaseHostFilter, hosts: Candidates, request: RequestSpec) -> Shortfall | None:
    return _ask(each, lambda: each.shortfall(hosts, request))


def _ask(each: BaseHostFilter, question: Callable[[], Answer]) -> Answer | None:
    """An explanation that fails must not hide the refusal that it was to explain."""
    try:
        return question()
    except Exception as failure:
        LOG.warning("Filter %s could not explain its no: %r", _name(each), failure)
        return None


def _name(each: BaseHostFilter) -> str:
    return type(each).__name__
