# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of services, written in groups. See ``services`` for the records that they keep alive.

Called by :mod:`conductor_stub.agents.api` and :mod:`conductor_stub.agents.manager`.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Iterable, Sequence
from typing import Protocol, cast

import sqlalchemy as sa

from fleet.db.engine.database import Transaction
from fleet.db.hosts.services import SERVICES
from fleet.db.tables.sql_types import Columns
from fleet.objects import host_report

_READ = (
    *("id", "host", "binary", "incarnation", "rpc_version", "release", "disabled_reason", "clock_skew_s"),
    "last_seen_up",
)
_FOUND = sa.select(*(SERVICES.c[name] for name in _READ)).where(
    SERVICES.c.host.in_(sa.bindparam("hosts", expanding=True)), sa.not_(SERVICES.c.deleted)
)
_SEEN = (
    SERVICES.update()
    .where(SERVICES.c.id.in_(sa.bindparam("ids", expanding=True)))
    .values(last_seen_up=sa.bindparam("now"), report_count=SERVICES.c.report_count + 1)
)


class _Beat(Protocol):
    """The columns that a heartbeat reads."""

    id: int
    host: str
    binary: str
    incarnation: str | None
    rpc_version: str | None
    release: str | None
    disabled_reason: str | None
    clock_skew_s: float
    last_seen_up: datetime.datetime | None


@dataclasses.dataclass(frozen=True)
class Heartbeat:
    """A process reports that it is alive, for all its hosts.

    :param incarnation: life of the process; empty for services that any number of processes may serve together
    :param rpc_version: and ``release``: of the process; None if it did not send them
    :param clock_skew_s: seconds by which its clock is ahead of the database's; 0 within bounds
    """

    binary: str
    hosts: Sequence[str]
    incarnation: str = ""
    rpc_version: str | None = None
    release: str | None = None
    clock_skew_s: float | None = None

    def owns(self, row: _Beat) -> bool:
        return row.binary == self.binary and self.incarnation in ("", row.incarnation)

    def changes(self, row: _Beat) -> Columns:
        """Columns of the record that differ: a registration through an older conductor did not store them."""
        sent = {"rpc_version": self.rpc_version, "release": self.release, "clock_skew_s": self.clock_skew_s}
        return {name: value for name, value in sent.items() if value is not None and value != getattr(row, name)}


@dataclasses.dataclass(frozen=True)
class HeartbeatAnswer:
    """Of the hosts of a heartbeat, those that another process has registered since, and those with an alarm.

    The process sends the inventories of the latter again: the alarm (``services.set_alarm``) may be over.
    """

    superseded: Sequence[str] = ()
    alarmed: Sequence[str] = ()


def write(
    tx: Transaction, heartbeats: Sequence[Heartbeat], now: datetime.datetime, down_time_s: float = math.inf
) -> list[HeartbeatAnswer]:
    """Store that these services are alive; return an answer for each heartbeat.

    A heartbeat advances no generation: schedulers read ``last_seen_up`` apart from the change feed. The first one after
    ``down_time_s`` seconds of silence does: builds may wait for the host.
    """
    by_host: dict[str, list[_Beat]] = {}
    wanted = {"hosts": sorted({host for each in heartbeats for host in each.hosts})}
    for row in cast("Iterable[_Beat]", tx.execute(_FOUND, wanted)):
        by_host.setdefault(row.host, []).append(row)
    seen: set[int] = set()
    answers = []
    for heartbeat in heartbeats:
        superseded: list[str] = []
        alarmed: list[str] = []
        for host in heartbeat.hosts:
            mine = [row for row in by_host.get(host, ()) if heartbeat.owns(row)]
            if not mine:
                superseded.append(host)
                continue
            row = mine[0]
            seen.add(row.id)
            if (row.disabled_reason or "").startswith(host_report.AUTO):
                alarmed.append(host)
            if row.last_seen_up is None or (now - row.last_seen_up).total_seconds() > down_time_s:
                tx.touch(SERVICES, row.id)
            if changes := heartbeat.changes(row):
                tx.update(SERVICES, row.id, changes)
        answers.append(HeartbeatAnswer(superseded, alarmed))
    if seen:
        # In the order of the keys, so that two conductors that lock many rows do not deadlock.
        tx.execute(_SEEN, {"ids": sorted(seen), "now": now})
    return answers
