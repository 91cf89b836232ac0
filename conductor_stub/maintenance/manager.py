# SPDX-License-Identifier: Apache-2.0
"""The methods by which operators read and change maintenances.

``fleet maintenance`` calls them, over RPC or through ``fleet-api``.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import pydantic
from oslo_utils import uuidutils

from conductor_stub.maintenance import progress, working
from conductor_stub.steps.acts import Acts
from conductor_stub.steps.maintenance_settings import MaintenanceSettings
from fleet import errors, maintenance_states
from fleet.clock import Clock, as_text
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database, Transaction
from fleet.db.hosts import services
from fleet.db.operations import maintenance_progress, maintenances
from fleet.db.operations.maintenances import Summary
from fleet.db.tables.operations.maintenance import MaintenanceHostRow, MaintenanceRow
from fleet.json_codec import JSONObject
from fleet.objects import fields
from fleet.objects.answers.maintenances import GuestsLeft, MaintenanceHostView, MaintenanceView, ShownMaintenance
from fleet.objects.maintenance import MOST_HOSTS, Maintenance
from fleet.rpc.endpoint import endpoint, served

#: Maintenances of one answer.
Limit = Annotated[int, pydantic.Strict(), pydantic.Field(ge=1, le=1000)]
LeftOut = Annotated[dict[fields.Name, fields.Text], pydantic.Field(max_length=MOST_HOSTS)]


class MaintenanceManager:
    """The RPC surface of the namespace ``operator`` for maintenances."""

    target = served("conductor", "operator")

    def __init__(self, database: Database, settings: MaintenanceSettings, clock: Clock) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock
        self._acts = Acts(database, clock)

    @endpoint
    def create_maintenance(
        self, context: RequestContext, maintenance: JSONObject, left_out: LeftOut | None = None
    ) -> ShownMaintenance:
        """Begin a maintenance.

        :param maintenance: a Maintenance
        :param left_out: by host that is in no wave, why
        :raises errors.InvalidInput: errors.NotFound: a host has no agent
        :raises errors.Conflict: the name, or a host, is in a maintenance that has not ended
        """
        wanted = Maintenance.from_wire(maintenance)
        if wanted.hook is not None and wanted.hook not in self._settings.hooks:
            known = ", ".join(sorted(self._settings.hooks)) or "none"
            reason = f"is {wanted.hook}, and [maintenance] hooks of the conductors has {known}"
            raise errors.InvalidInput(field="maintenance.hook", reason=reason)
        skipped = left_out or {}
        for host in skipped.keys() & {host for wave in wanted.waves for host in wave}:
            raise errors.InvalidInput(field="left_out", reason=f"has {host}, which is in a wave")
        uuid = uuidutils.generate_uuid()
        shown = functools.partial(_seen, uuid=uuid)
        self._acts.write(
            context, "maintenance.create", wanted.name, shown, _create, uuid, wanted, skipped, self._clock()
        )
        return self._database.read(_shown, uuid, self._clock())

    @endpoint
    def list_maintenances(self, context: RequestContext, limit: Limit = 100) -> list[MaintenanceView]:
        """Return the maintenances that have not ended, then the others, each group the newest first."""

        def read(connection: Connection) -> list[MaintenanceView]:
            rows = maintenances.newest(connection, limit)
            hosts = maintenances.summaries(connection, [row.uuid for row in rows])
            return [_view(row, hosts[row.uuid]) for row in rows]

        return self._database.read(read)

    @endpoint
    def show_maintenance(self, context: RequestContext, name: fields.Name) -> ShownMaintenance:
        """:param name: a uuid, or a name: the newest maintenance of it. :raises errors.NotFound:"""
        now = self._clock()
        return self._database.read(lambda connection: _shown(connection, maintenances.find(connection, name).uuid, now))

    @endpoint
    def pause_maintenance(self, context: RequestContext, name: fields.Name, paused: fields.Flag) -> ShownMaintenance:
        """Begin nothing more, or go on. Moves and hooks that are under way go on. Hosts that have failed are tried again
        when the maintenance goes on.

        :raises errors.NotFound: errors.Conflict: it has ended
        """
        return self._change(
            context, name, maintenance_progress.PAUSED if paused else maintenance_progress.RESUMED, _pause, paused
        )

    @endpoint
    def cancel_maintenance(self, context: RequestContext, name: fields.Name) -> ShownMaintenance:
        """End a maintenance: its hosts take builds again. Guests that have moved stay where they are.

        :raises errors.NotFound: errors.Conflict: it has ended
        """
        return self._change(context, name, "maintenance.cancel", _cancel)

    @endpoint
    def skip_maintenance_host(self, context: RequestContext, name: fields.Name, host: fields.Name) -> ShownMaintenance:
        """Leave a host out. :raises errors.NotFound: errors.Conflict: the host, or the maintenance, has ended"""
        return self._change(context, name, "maintenance.skip", _skip, host)

    def _change(self, context: RequestContext, name: str, act: str, work: Any, *more: object) -> ShownMaintenance:
        row = self._database.read(maintenances.find, name)
        shown = functools.partial(_seen, uuid=row.uuid)
        self._acts.write(context, act, row.name, shown, work, row.uuid, *more, now=self._clock())
        return self._database.read(_shown, row.uuid, self._clock())


def _create(
    tx: Transaction, uuid: str, wanted: Maintenance, left_out: Mapping[str, str], now: datetime.datetime
) -> None:
    for host in (*(host for wave in wanted.waves for host in wave), *left_out):
        services.require(tx, host, services.COMPUTE)
    values = {
        **{name: getattr(wanted, name) for name in ("name", "hook", "wanted_release", "cold", "moves_at_a_time")},
        "uuid": uuid,
        "created_at": now,
    }
    maintenances.create(tx, values, wanted.waves, wanted.destinations, left_out)


def _require_open(tx: Transaction, uuid: str) -> MaintenanceRow:
    row = maintenances.lock(tx, uuid)
    if row.open_name is None:
        raise errors.Conflict(kind="Maintenance", name=row.name, reason=f"is {row.status}")
    return row


def _pause(tx: Transaction, uuid: str, paused: bool, now: datetime.datetime) -> None:
    _require_open(tx, uuid)
    maintenances.update(tx, uuid, now, paused=paused)
    for each in maintenances.hosts(tx, uuid) if not paused else ():
        if each.open_host is not None:
            working.resume(tx, maintenances.lock_host(tx, each.id), now)


def _cancel(tx: Transaction, uuid: str, now: datetime.datetime) -> None:
    row = _require_open(tx, uuid)
    for each in maintenances.hosts(tx, uuid):
        if each.open_host is not None:
            why = "the maintenance was cancelled"
            working.end(tx, maintenances.lock_host(tx, each.id), row.name, maintenance_states.SKIPPED, now, why)
    ended = {"status": maintenance_states.CANCELLED, "open_name": None, "ended_at": now}
    maintenances.update(tx, uuid, now, **ended)


def _skip(tx: Transaction, uuid: str, host: str, now: datetime.datetime) -> None:
    row = _require_open(tx, uuid)
    found = next((each for each in maintenances.hosts(tx, uuid) if each.host == host), None)
    if found is None:
        raise errors.NotFound(kind=f"Host of maintenance {row.name}", name=host)
    if found.open_host is None:
        raise errors.Conflict(kind="Host", name=host, reason=f"is {found.status}")
    why = "an operator has left it out"
    working.end(tx, maintenances.lock_host(tx, found.id), row.name, maintenance_states.SKIPPED, now, why)


def _seen(tx: Transaction, uuid: str) -> dict[str, object]:
    row = maintenances.get(tx, uuid)
    hosts = {each.status: each.number for each in maintenances.summaries(tx, [uuid])[uuid]}
    return {"status": row.status, "paused": row.paused, "hosts": hosts}


def _shown(connection: Connection, uuid: str, now: datetime.datetime) -> ShownMaintenance:
    plan, rows = maintenances.get(connection, uuid), maintenances.hosts(connection, uuid)
    planned = maintenance_progress.planned(connection, uuid)
    guests = progress.guests_left(connection, rows, planned)
    return {
        "maintenance": _view(plan, maintenances.summaries(connection, [uuid])[uuid]),
        "hosts": [_host_view(row, guests.get(row.host)) for row in rows],
        "estimate": progress.estimate(plan, rows, planned, maintenance_progress.pauses(connection, plan), now),
    }


def _view(row: MaintenanceRow, hosts: Sequence[Summary]) -> MaintenanceView:
    return {
        "uuid": row.uuid,
        "name": row.name,
        "status": row.status,
        "paused": row.paused,
        "hook": row.hook,
        "wanted_release": row.wanted_release,
        "cold": row.cold,
        "moves_at_a_time": row.moves_at_a_time,
        "hosts": {each.status: each.number for each in hosts},
        "wave": min((each.first for each in hosts if each.status in maintenance_states.OPEN), default=0),
        "waves": max((each.last for each in hosts), default=0),
        "created_at": as_text(row.created_at),
        "ended_at": as_text(row.ended_at),
    }


def _host_view(row: MaintenanceHostRow, guests: GuestsLeft | None) -> MaintenanceHostView:
    return {
        "host": row.host,
        "wave": row.wave,
        "status": row.status,
        "attempt": row.attempt,
        "problem": row.problem,
        "began_at": as_text(row.began_at),
        "emptied_at": as_text(row.emptied_at),
        "worked_at": as_text(row.worked_at),
        "ended_at": as_text(row.ended_at),
        "guests": guests,
    }
