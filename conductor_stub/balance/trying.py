# SPDX-License-Identifier: Apache-2.0
"""Computes a round of an aggregate: loads, and the moves that filters and soft rules accept.

Called by :mod:`conductor_stub.balance.keeper` and :mod:`conductor_stub.balance.manager`. Nothing is written.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import oslo_messaging

from conductor_stub.balance import deciding, reading
from conductor_stub.balance.deciding import Guest, Round
from conductor_stub.operators.dry_run import DryRun
from conductor_stub.steps.balance_settings import BalanceSettings
from fleet import balance_states, errors
from fleet.context import new_context
from fleet.db.engine.database import Database
from fleet.db.operations import balances
from fleet.reasons import Reason
from fleet.rpc.clients import SchedulerAPI

#: Seconds for the answer of a scheduler. Aggregates are looked at one after the other.
_WAIT_S = 10
#: Hosts whose loads a record has.
_SHOWN = 10


class Trying:
    def __init__(
        self,
        database: Database,
        scheduler: SchedulerAPI,
        dry_run: DryRun,
        settings: BalanceSettings,
        down_time_s: float,
    ) -> None:
        """:param dry_run: makes the request of a guest, which the scheduler judges"""
        self._database = database
        self._scheduler = scheduler
        self._dry_run = dry_run
        self._settings = settings
        self.down_time_s = down_time_s

    def round(
        self,
        aggregate: str,
        hot_since: Mapping[str, datetime.datetime],
        now: datetime.datetime,
        at_once: bool = False,
        held_up: str = "",
    ) -> tuple[Round, dict[str, Any]]:
        """Return the round, and the columns of its record.

        :param at_once: hosts that are hot now count as if they had been hot for the whole time
        :param held_up: why no guest of the fleet can be moved now
        :raises errors.NotFound: there is no such aggregate
        """
        seen = self._database.read(reading.read, aggregate, self._settings, now, self.down_time_s)
        since = hot_since
        if at_once:
            since = dict.fromkeys((each.name for each in seen.hosts), datetime.datetime.min)

        def refuses(guest: Guest, host: str) -> str:
            return reading.soft_refusal(seen, guest, host) or self._refused(guest, host)

        decide = functools.partial(deciding.decide, seen.hosts, seen.guests, since, self._settings, now, refuses)
        try:
            found = decide(seen.held_up or held_up)
        except oslo_messaging.MessagingException as failure:
            found = decide(f"no scheduler answers: {failure}"[:500])
        return found, _record(found, seen)

    def _refused(self, guest: Guest, host: str) -> str:
        """Ask a scheduler, which books nothing. :raises oslo_messaging.MessagingException: none answers"""
        try:
            found = self._dry_run.requests_of([guest.uuid], live=True)
            if not found:
                return f"{guest.name} is gone"
            (asked,) = found
            wanted = {"requested_destination": {"host": host}, "promised": True}
            properties = {**asked["filter_properties"], **wanted}
            # What forced the first host is no rule for others.
            for name in ("force_hosts", "force_nodes"):
                properties.pop(name, None)
            answer = self._scheduler.explain(new_context(), asked["request_spec"], properties, 1, _WAIT_S)
        except errors.FleetError as failure:
            return f"the scheduler cannot judge {guest.name} on {host}: {failure}"[:500]
        if answer["picks"]:
            return ""
        reason = answer.get("reason") or "no host"
        if answer.get("reason_code") == Reason.TOLERANCE.value:
            return f"{guest.name} cannot go to {host}: {reason}"[:500]
        return f"the filters refuse {guest.name} on {host}: {reason}"[:500]


def _fingerprint(hosts: Iterable[str]) -> str:
    """Return a short text that stands for these hosts: there may be thousands."""
    return hashlib.sha256(json.dumps(sorted(hosts)).encode()).hexdigest()[:16]


def _record(found: Round, seen: reading.Seen) -> dict[str, Any]:
    hottest = sorted(found.loads, key=lambda host: (-found.loads[host], host))[:_SHOWN]
    return {
        "seen": {
            "hosts": len(found.loads),
            "measured": seen.measured,
            "mean": round(found.mean, 1),
            "before": round(found.before, 1),
            "expected": round(found.expected, 1),
            "loads": {host: round(found.loads[host], 1) for host in hottest},
            "hot": sorted(found.hot_since),
            balances.COUNTED: _fingerprint(each.name for each in deciding.counted(seen.hosts)),
        },
        "moves": [
            {
                "instance_uuid": each.guest.uuid,
                "name": each.guest.name,
                "source": each.guest.host,
                "destination": each.destination,
                "memory_mb": each.guest.memory_mb,
                "disk_gb": each.guest.disk_gb,
                "gain": round(each.gain, 1),
                "status": balance_states.WAITING,
                "migration": None,
                "why": "",
            }
            for each in found.moves
        ],
        "not_done": dict(found.not_done),
    }
