# SPDX-License-Identifier: Apache-2.0
"""``GET /fleet/v1/doctor``: what ``fleet doctor --url`` finds, but for the agents, which are not asked.

Called by :mod:`fleet_api.application`.
"""

from __future__ import annotations

import functools
from typing import Any

import falcon
from typing_extensions import TypedDict

from fleet.context import RequestContext
from fleet.doctor import examination
from fleet.rpc.clients import OperatorCalls
from fleet_api.requests import answers, guard
from fleet_api.requests.calls import Calls
from fleet_api.requests.conductor import Conductor

PATH = "/fleet/v1/doctor"


class FindingShown(TypedDict):
    """``level``: ``ok``, ``warn`` or ``fail``. ``fix`` is empty if nothing is wrong."""

    check: str
    level: str
    found: str
    fix: str


class Doctor:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("fleet:others")
    @answers.gives(answers.Answer({"findings": list[FindingShown]}))
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Show the findings about daemons, database and ledger, with advice."""
        context = request.context.caller
        asked = _Asked(self._conductor.operator(request), self._conductor.calls, context)
        found = examination.daemons(asked, lambda _hosts: [])
        response.media = {"findings": [_shown(each) for each in found]}


class _Asked:
    """Asks as the sender of the request; implements :class:`fleet.doctor.examination.Asked`."""

    def __init__(self, operator: OperatorCalls, calls: Calls, context: RequestContext) -> None:
        self.operator = operator
        self.describe_host = functools.partial(calls.describe_host, context)
        self.describe_filters = functools.partial(calls.describe_filters, context)
        self._calls = calls
        self._context = context

    def ping(self, topic: str) -> None:
        self._calls.ping(self._context, topic)


def _shown(found: Any) -> FindingShown:
    return {"check": found.check, "level": found.level.name.lower(), "found": found.found, "fix": found.fix}
