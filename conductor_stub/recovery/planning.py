# SPDX-License-Identifier: Apache-2.0
"""Asks a scheduler where the guests of a lost host shall go, so that all of them find a place.

:mod:`conductor_stub.recovery.keeper` asks before it moves the first guest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import oslo_messaging

from conductor_stub.operators.dry_run import DryRun
from fleet import errors, states
from fleet.context import new_context
from fleet.db.catalog import groups
from fleet.db.engine.database import Connection, Database
from fleet.db.instances import instances
from fleet.db.operations import recoveries
from fleet.rpc.clients import SchedulerAPI


class Planner:
    """A recovery goes on without a plan if there is none: the scheduler then chooses for one guest after the other."""

    def __init__(self, database: Database, scheduler: SchedulerAPI, dry_run: DryRun) -> None:
        self._database = database
        self._scheduler = scheduler
        self._dry_run = dry_run

    def plan(self, host: str, _guests: Sequence[str]) -> tuple[Mapping[str, str], str]:
        """Return the new hosts of all guests of the host, by uuid, and a sentence."""
        concerned = self._database.read(_concerned, host)
        if not concerned:
            return {}, "no guest needs a new host"
        try:
            requests = self._dry_run.requests_of(concerned)
            answer = self._scheduler.plan_loss(new_context(), [host], requests)
        except (errors.FleetError, oslo_messaging.MessagingException) as failure:
            return {}, f"without a plan, the scheduler chooses for each guest: {failure}"[:1000]
        plan: dict[str, str] = answer["plan"]
        if not plan:
            return {}, f"without a plan, the scheduler chooses for each guest: {answer['verdict']}, {answer['why']}"
        return plan, f"{len(plan)} guests have a place: {answer['why']}"


def _concerned(connection: Connection, host: str) -> list[str]:
    """The guests of the host, without those that return to their former hosts, and the other members of their groups."""
    rows = [each for each in recoveries.guests_on(connection, host) if each.vm_state != states.RESIZED]
    found = {row.uuid for row in rows}
    for group in sorted({row.group_uuid for row in rows if row.group_uuid}):
        found |= {each.uuid for each in groups.members(connection, group)}
    return [row.uuid for row in instances.of_uuids(connection, found)]
