# SPDX-License-Identifier: Apache-2.0
"""The answer of ``explain``: a decision that is not booked, with the weights of the best hosts.

Called by :mod:`scheduler.compute.drivers.filter_scheduler` and :mod:`scheduler.volumes.manager`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fleet.json_codec import JSONObject
from scheduler.engine.decision import Decision
from scheduler.engine.hosts.table import Key

_HOSTS_NAMED = 5


class Words(NamedTuple):
    """The words of a summary for a domain: the thing that is placed, the place, and a function that names its key."""

    thing: str = "instance"
    place: str = "host"
    name: Callable[[Key], str] = lambda key: key[0]


def explanation(made: Decision, words: Words = Words()) -> JSONObject:  # noqa: B008  (a value)
    """Return the answer of ``explain``, with every key of ``docs/explain.md``, whatever the outcome."""
    return {
        "reason_code": None,
        "nearest": [],
        "dropped": {},
        "silent": 0,
        "remarks": [],
        "state": None,
        "share": None,
        **made.to_wire(),
        "summary": _summary(made, words),
        "reason": made.reason,
        "picks": [
            {
                "instance_uuid": pick.instance_uuid,
                "host": pick.key[0],
                "nodename": pick.key[1],
                "weight": pick.weight,
                "limits": dict(pick.limits),
                "alternates": [place.to_wire() for place in pick.alternates],
            }
            for pick in made.picks
        ],
        "scores": list(made.scores),
    }


def _summary(made: Decision, words: Words) -> str:
    """The whole in one line."""
    if made.complete:
        hosts = list(dict.fromkeys(words.name(pick.key) for pick in made.picks))
        more = f" and {len(hosts) - _HOSTS_NAMED} more" if len(hosts) > _HOSTS_NAMED else ""
        named = ", ".join(hosts[:_HOSTS_NAMED]) + more
        return (
            f"{made.requested} {words.thing}(s) would go to {named}; {made.considered} {words.place}s were considered."
        )
    code = made.refusal.code.value if made.refusal else ""
    could = f"{len(made.picks)} of {made.requested} {words.thing}(s) could be placed"
    return f"{code}: {could}; {made.considered} {words.place}s were considered."
