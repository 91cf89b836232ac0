# SPDX-License-Identifier: Apache-2.0
"""The record of one decision: the requester, the request, the chosen hosts, and the reasons.

Called by :mod:`scheduler.compute.drivers.kept_decisions`.
"""

from __future__ import annotations

from fleet import errors
from fleet.json_codec import JSONObject
from fleet.objects import RequestSpec
from scheduler.engine.decision import Decision

#: Instances of one request that are listed; the counts are of all.
MOST_INSTANCES = 100
PLACED, REFUSED = "placed", "refused"


def of(request: RequestSpec, made: Decision, at: float, scheduler: str) -> JSONObject:
    """Return the record of ``docs/explain.md``. :param at: epoch seconds; :param scheduler: name of its machine"""
    facts: JSONObject = {
        "at": round(at, 3),
        "scheduler": scheduler,
        "project_id": request.instance.project_id,
        "flavor": request.flavor.name,
        "outcome": PLACED if made.complete else REFUSED,
        "instances": list(request.instance_uuids[:MOST_INSTANCES]),
        "picks": [
            {
                "instance_uuid": pick.instance_uuid,
                "host": pick.key[0],
                "nodename": pick.key[1],
                "weight": pick.weight,
                "alternates": [place.host for place in pick.alternates],
            }
            for pick in made.picks[:MOST_INSTANCES]
        ],
        "details": made.to_wire(),
    }
    if not made.complete:
        facts.update(error=errors.NoValidHost.__name__, message=made.reason)
    return facts
