# SPDX-License-Identifier: Apache-2.0
"""Refusals: the dominant reason, a sentence with it, and the near misses with numbers.

Called by modules of :mod:`scheduler.compute.drivers` and :mod:`scheduler.volumes.drivers`. A refusal is computed only
when hosts run out, from the masks of the filters and the current columns.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

import numpy

from fleet.json_codec import JSONObject
from fleet.reasons import Reason
from scheduler.engine import filtering
from scheduler.engine.decision import Refused
from scheduler.engine.filtering import Drop
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.names import Request
from scheduler.engine.plugins import is_column_filter
from scheduler.why import near_misses
from scheduler.why.near_misses import DroppedHosts, Miss

_SENTENCES = {
    Reason.CAPACITY: "{count} of {judged} {places} that the request allows are too full",
    Reason.NEVER_FITS: "no {place} that the request allows could take it even when empty",
    Reason.POLICY: "the request's own conditions rule out all of {considered} {places}",
    Reason.HOSTS_DOWN: "{count} of {judged} {places} that the request allows are disabled or down",
    Reason.RACE_LOST: "{count} of {judged} {places} that the request allows have been tried in vain",
}


@dataclasses.dataclass(frozen=True)
class Refusal:
    """``dropped``: how many hosts each filter was the first to drop, over all instances of the request.

    ``silent``: the number of these hosts that lack only a heartbeat, and may send one again.
    """

    code: Reason
    sentence: str
    nearest: Sequence[Miss] = ()
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    silent: int = 0

    def to_wire(self) -> JSONObject:
        return {
            "reason_code": self.code.value,
            "dropped": dict(self.dropped),
            "silent": self.silent,
            "nearest": [miss.to_wire() for miss in self.nearest],
        }


def explain(refused: Refused) -> Refusal:
    """Explain why not all instances of a request found a host. Call it before the next change of the hosts."""
    if not refused.considered:
        known = int(numpy.count_nonzero(refused.hosts.present()))
        return _of_none_considered(known, refused.request, refused.hosts.domain.words.place)
    return _of_drops(refused)


def _of_none_considered(known: int, request: Request, place: str) -> Refusal:
    """No filter ran: there are no hosts at all, or the request itself excludes them.

    :param known: number of hosts that there are
    :param place: the word for a host
    """
    none = f"There are not enough {place}s available:"
    forced = _words(request.force_hosts, request.force_nodes)
    named = forced or _words(request.requested_hosts, request.requested_nodes)
    if not known:
        return Refusal(Reason.HOSTS_DOWN, f"{none} no {place} is known.")
    if named:
        wanted = "which the request forces" if forced else "to which the request is limited"
        sentence = f"{none} {' and '.join(named)}, {wanted}, {_why_not_there(request, len(named))}."
        return Refusal(Reason.POLICY, sentence)
    sentence = f"{none} the request excludes all of {known} {place}s by name."
    return Refusal(Reason.POLICY, sentence)


def _words(hosts: Sequence[str], nodes: Sequence[str]) -> list[str]:
    return [*(f"host {name}" for name in hosts), *(f"node {name}" for name in nodes)]


def _why_not_there(request: Request, number: int) -> str:
    """Return why none of the ``number`` named hosts or nodes was considered. Names are compared without case."""
    ignored = [*request.ignore_hosts, *(host for host, _node in request.ignore_nodes)]
    excluded, within, hosts = (
        {name.lower() for name in names} for names in (ignored, request.within_hosts or (), _hosts_named(request))
    )
    is_outside = request.within_hosts is not None and within.isdisjoint(hosts)
    if hosts and (hosts <= excluded or is_outside):
        return "is excluded by the same request" if number == 1 else "are excluded by the same request"
    return "is not known" if number == 1 else "are not known together"


def _hosts_named(request: Request) -> Sequence[str]:
    return request.force_hosts or request.requested_hosts


def _of_drops(refused: Refused) -> Refusal:
    """A filter dropped every host, for this or an earlier instance of the request."""
    drops = refused.drops
    judged = _of_allowed(refused) or list(drops)
    hosts = near_misses.dropped_hosts(refused, judged)
    code = dominant(judged, hosts)
    dropped = collections.Counter[str]()
    for drop in drops:
        dropped[type(drop.by).__name__] += len(drop.rows)
    misses = hosts.nearest()
    count = sum(len(drop.rows) for drop in judged if drop.by.reason is code)
    total = sum(len(drop.rows) for drop in judged)
    place = refused.hosts.domain.words.place
    words = {"place": place, "places": f"{place}s", "count": count, "judged": total, "considered": refused.considered}
    cause = _SENTENCES.get(code, "filters say no").format(**words)
    counts = ", ".join(f"{name} {number}" for name, number in dropped.items())
    told = f" Nearest: {misses[0].text}." if misses else ""
    sentence = f"There are not enough {place}s available: {cause} (dropped by {counts}).{told}"
    return Refusal(code, sentence, misses, dropped, _silent(refused.hosts, judged))


def _of_allowed(refused: Refused) -> list[Drop]:
    """Return the drops that are not the request's own conditions', without hosts that its conditions rule out as well.

    A host that one filter has dropped is not asked about by those after it.
    """
    conditions = [each for each in refused.filters if is_column_filter(each) and each.reason is Reason.POLICY]
    found = []
    for drop in refused.drops:
        if drop.by.reason is Reason.POLICY:
            continue
        rows = drop.rows
        for each in conditions:
            about = each, refused.hosts.subset(rows), refused.request
            mask = refused.supervision.explained(each, filtering.mask_of, *about)
            rows = rows if mask is None else rows[mask]
        if len(rows):
            found.append(Drop(drop.by, rows))
    return found


def _silent(hosts: Candidates, drops: Sequence[Drop]) -> int:
    count = 0
    for drop in drops:
        if drop.by.reason is Reason.HOSTS_DOWN:
            those = hosts.subset(drop.rows)
            count += int(numpy.count_nonzero(~those.column("disabled") & ~those.column("forced_down")))
    return count


def dominant(judged: Sequence[Drop], hosts: DroppedHosts) -> Reason:
    """The one reason among those of all drops.

    What the request's own conditions exclude does not speak for the others: POLICY is the reason only if it leaves no
    host. Of the others NEVER_FITS needs all of them to agree, and else the most frequent reason wins, of equal ones
    that of the later filter.

    :param judged: the drops that are not the request's own conditions'; all of them where there are no others
    """
    if all(drop.by.reason is Reason.POLICY for drop in judged):
        return Reason.POLICY
    if hosts.never().all():
        return Reason.NEVER_FITS
    counts = collections.Counter[Reason]()
    for drop in judged:
        counts[drop.by.reason] += len(drop.rows)
    return max(reversed(counts), key=lambda reason: counts[reason])
