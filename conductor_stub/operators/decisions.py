# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of decisions that were kept, namespace ``operator``.

Called by :mod:`conductor_stub.operators.wiring`. Each scheduler keeps its own; all are asked.
"""

from __future__ import annotations

import oslo_messaging

from fleet import errors
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Database
from fleet.db.hosts import services
from fleet.objects import fields
from fleet.objects.answers.decisions import KeptDecision, KeptDecisions
from fleet.rpc.clients import SchedulerAPI
from fleet.rpc.endpoint import endpoint, served

_BINARY, _TOPIC = "fleet-scheduler", "scheduler"


class DecisionManager:
    target = served("conductor", "operator")

    def __init__(
        self, database: Database, scheduler: SchedulerAPI, service_down_time_s: float, clock: Clock = utcnow
    ) -> None:
        self._database = database
        self._scheduler = scheduler
        self._service_down_time_s = service_down_time_s
        self._clock = clock

    @endpoint
    def list_decisions(self, context: RequestContext, request_id: fields.Name) -> KeptDecisions:
        """Return the decisions of a request, the oldest first, and the schedulers that do not answer.

        A project gets those of its own instances only, without hosts.

        :raises errors.ConfigError: none is found, and a scheduler keeps no decisions
        """
        found: list[KeptDecision] = []
        silent: list[str] = []
        refusal: errors.FleetError | None = None
        for host in self._schedulers():
            try:
                found += self._scheduler.decisions_of(context, request_id, host)
            except errors.FleetError as refused:
                refusal = refused
            except oslo_messaging.MessagingException:
                silent.append(host)
        if not context.is_admin:
            found = [_of_project(each) for each in found if each["project_id"] == context.project_id]
        if refusal is not None and not found:
            raise refusal
        return {"decisions": sorted(found, key=lambda each: each["at"]), "silent": silent}

    def _schedulers(self) -> list[str]:
        now = self._clock()
        return sorted(self._database.read(services.live, _BINARY, now, self._service_down_time_s, _TOPIC))


def _of_project(record: KeptDecision) -> KeptDecision:
    """Return what a project may see of a decision; of one that was refused, the texts are made without names later."""
    shown = record.copy()
    # The names of hosts, and of their capacity.
    shown.pop("picks", None)
    shown.pop("scheduler", None)
    if "message" not in shown:
        shown["details"] = {"filters": record["details"].get("filters", [])}
    return shown
