# SPDX-License-Identifier: Apache-2.0
"""The answer of ``explain``: a decision that is not booked, with the weights of the best hosts."""

from __future__ import annotations

from typing import Any

from scheduler.engine.decision import Decision

_HOSTS_NAMED = 5


def explanation(made: Decision) -> dict[str, Any]:
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
        "summary": _summary(made),
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


def _summary(made: Decision) -> str:
    """The whole in one line."""
    if made.complete:
        hosts = list(dict.fromkeys(pick.key[0] for pick in made.picks))
        more = f" and {len(hosts) - _HOSTS_NAMED} more" if len(hosts) > _HOSTS_NAMED else ""
        named = ", ".join(hosts[:_HOSTS_NAMED]) + more
        return f"{made.requested} instance(s) would go to {named}; {made.considered} hosts were considered."
    code = made.refusal.code.value if made.refusal else ""
    could = f"{len(made.picks)} of {made.requested} instance(s) could be placed"
    return f"{code}: {could}; {made.considered} hosts were considered."
