# SPDX-License-Identifier: Apache-2.0
"""The methods by which operators read and change recoveries.

``fleet recovery`` calls them, over RPC or through ``fleet-api``.
"""

from __future__ import annotations

import datetime
import functools
from typing import Annotated

import pydantic

from conductor_stub.recovery import watch
from conductor_stub.steps.acts import Acts
from fleet import errors
from fleet.clock import Clock, as_text
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database, Transaction
from fleet.db.hosts import services
from fleet.db.operations import recoveries, silence
from fleet.db.tables.operations.recovery import RecoveryGuestRow, RecoveryRow
from fleet.json_codec import JSONObject
from fleet.objects import fields
from fleet.objects.answers.recoveries import (
    RecoveriesView,
    RecoveryGuestView,
    RecoveryStepView,
    RecoveryView,
    ShownRecovery,
    Switch,
)
from fleet.rpc.endpoint import endpoint, served

#: Recoveries of one answer.
Limit = Annotated[int, pydantic.Strict(), pydantic.Field(ge=1, le=1000)]


class RecoveryManager:
    """The RPC surface of the namespace ``operator`` for recoveries."""

    target = served("conductor", "operator")

    def __init__(self, database: Database, down_time_s: float, clock: Clock) -> None:
        self._database = database
        self._down_time_s = down_time_s
        self._clock = clock
        self._acts = Acts(database, clock)

    @endpoint
    def list_recoveries(self, context: RequestContext, limit: Limit = 100) -> RecoveriesView:
        """Return ``recoveries``, those that have not ended first; ``domains`` as last counted; ``paused``: all are."""

        def read(connection: Connection) -> RecoveriesView:
            rows = recoveries.newest(connection, limit)
            counts = recoveries.counts(connection, [row.uuid for row in rows])
            domains = silence.domains(connection)
            fleet = domains.get(silence.FLEET)
            return {
                "recoveries": [{**_view(row), "guests": counts[row.uuid]} for row in rows],
                "domains": [
                    {"name": each.name, "hosts": each.hosts, "silent": each.silent, "stopped": each.stopped}
                    for each in domains.values()
                ],
                "paused": fleet is not None and fleet.paused,
            }

        return self._database.read(read)

    @endpoint
    def show_recovery(self, context: RequestContext, name: fields.Name) -> ShownRecovery:
        """Return the recovery with its ``guests`` and ``steps``.

        :param name: a uuid, or a host: its newest recovery
        :raises errors.NotFound:
        """

        def read(connection: Connection) -> ShownRecovery:
            row = recoveries.find(connection, name)
            guests = [_guest_view(each) for each in recoveries.guests(connection, row.uuid)]
            steps: list[RecoveryStepView] = [
                {"step": each.step, "message": each.message, "created_at": as_text(each.created_at)}
                for each in recoveries.steps(connection, row.uuid)
            ]
            return {**_view(row), "guests": guests, "steps": steps}

        return self._database.read(read)

    @endpoint
    def pause_recovery(self, context: RequestContext, paused: fields.Flag, name: fields.Name | None = None) -> Switch:
        """Pause or resume a recovery. A fence that runs already, and moves under way, go on.

        :param name: a uuid or a host; None: all recoveries, also those that are still to come
        :return: name and ``paused``
        :raises errors.NotFound: errors.Conflict: it has ended
        """
        row = self._database.read(recoveries.find, name) if name is not None else None
        uuid, subject = (None, "all hosts") if row is None else (row.uuid, row.host)
        act = "recovery.pause" if paused else "recovery.resume"
        shown = functools.partial(_switch, uuid=uuid)
        self._acts.write(context, act, subject, shown, recoveries.set_paused, uuid, paused, self._clock())
        return {"name": subject, "paused": paused}

    @endpoint
    def start_recovery(self, context: RequestContext, host: fields.Name) -> RecoveryView:
        """Recover a host that is down now, whatever ``enabled`` and ``largest_share`` are. The host is fenced first.

        :raises errors.NotFound: errors.Conflict: the host is up, or has no guests
        """
        shown = functools.partial(_of_host, host=host)
        work = functools.partial(_start, host=host, down_time_s=self._down_time_s, now=self._clock())
        return _view(self._acts.write(context, "recovery.start", host, shown, work))


def _view(row: RecoveryRow) -> RecoveryView:
    return {
        "uuid": row.uuid,
        "host": row.host,
        "status": row.status,
        "paused": row.paused,
        "asked": row.asked,
        "attempt": row.attempt,
        "problem": row.problem,
        "silent_since": as_text(row.silent_since),
        "fenced_at": as_text(row.fenced_at),
        "created_at": as_text(row.created_at),
        "ended_at": as_text(row.ended_at),
    }


def _guest_view(row: RecoveryGuestRow) -> RecoveryGuestView:
    return {
        "instance_uuid": row.instance_uuid,
        "place": row.place,
        "status": row.status,
        "destination": row.destination,
        "migration_uuid": row.migration_uuid,
        "tries": row.tries,
        "problem": row.problem,
    }


def _switch(tx: Transaction, uuid: str | None) -> JSONObject:
    if uuid is None:
        fleet = silence.domains(tx).get(silence.FLEET)
        return {"paused": fleet is not None and fleet.paused}
    row = recoveries.get(tx, uuid)
    return {"paused": row.paused, "status": row.status}


def _of_host(tx: Transaction, host: str) -> JSONObject:
    return {"recovery": recoveries.is_open(tx, host)}


def _start(tx: Transaction, host: str, down_time_s: float, now: datetime.datetime) -> RecoveryRow:
    service = services.get(tx, host, services.COMPUTE)
    if service is None or service.deleted:
        raise errors.NotFound(kind="Host", name=host)
    if services.is_up(service, now, down_time_s):
        raise errors.Conflict(kind="Host", name=host, reason="is up: a recovery is for hosts that are down")
    silence.lock_fleet(tx, now)
    if not recoveries.is_open(tx, host):
        return recoveries.get(tx, watch.begin(tx, host, now, service.last_seen_up, asked=True))
    row = recoveries.open_of(tx, host)
    recoveries.set_paused(tx, row.uuid, False, now)
    recoveries.update(tx, row.uuid, now, asked=True)
    return recoveries.get(tx, row.uuid)
