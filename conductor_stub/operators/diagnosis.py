# SPDX-License-Identifier: Apache-2.0
"""What a conductor can say of the fleet's condition, for ``fleet doctor``."""

from __future__ import annotations

import time
from typing import Any

import sqlalchemy as sa

from fleet import states
from fleet.clock import Clock, seconds, utcnow
from fleet.db import models, services
from fleet.db.engine import Database
from fleet.db.instances import INSTANCES
from fleet.db.schema import latest, version

NODES = models.compute_nodes
#: A step that is overdue by more should have been swept.
SWEPT_WITHIN_S = 60


class Examination:
    """Looks, and changes nothing."""

    def __init__(self, database: Database, host: str, clock: Clock = utcnow) -> None:
        self._database = database
        self._host = host
        self._clock = clock

    def examine(self) -> dict[str, Any]:
        """``host`` and ``now`` (the database's clock), ``database`` (``engine``, ``took_s`` of a query, ``version`` of the
        schema and the one ``expected``), ``orphans`` (``host``, ``node``, ``memory_mb``), ``overdue`` (steps that are
        not swept), ``down`` (instances whose guest does not run: ``uuid``, ``name``, ``host``, ``power_state``) and
        ``ahead`` (services that were heard of later than now: a conductor's clock is wrong)."""
        began = time.monotonic()
        self._database.read_once(lambda connection: connection.execute(sa.text("SELECT 1")).scalar_one())
        took_s = time.monotonic() - began
        now = self._clock()
        found = self._database.read_once(_look, now)
        schema = {"version": version(self._database), "expected": latest()}
        engine = self._database.engine.dialect.name
        return {
            "host": self._host,
            "now": self._clock().isoformat(),
            "database": {"engine": engine, "took_s": took_s, **schema},
            **found,
        }


_DOWN = sa.select(INSTANCES.c["uuid", "name", "host", "power_state"]).where(
    sa.not_(INSTANCES.c.deleted),
    INSTANCES.c.vm_state.in_((states.ACTIVE, states.RESIZED)),
    INSTANCES.c.task_state.is_(None),
    INSTANCES.c.power_state.in_(list(states.DOWN)),
)


def _look(connection: sa.Connection, now: Any) -> dict[str, Any]:
    orphans = sa.select(NODES.c.host, NODES.c.hypervisor_hostname, NODES.c.orphaned_memory_mb).where(
        NODES.c.orphaned_memory_mb > 0, sa.not_(NODES.c.deleted)
    )
    overdue = (
        sa.select(sa.func.count())
        .select_from(INSTANCES)
        .where(INSTANCES.c.step_deadline < now - seconds(SWEPT_WITHIN_S), sa.not_(INSTANCES.c.deleted))
    )
    return {
        "orphans": [
            {"host": host, "node": node, "memory_mb": memory_mb}
            for host, node, memory_mb in connection.execute(orphans)
        ],
        "overdue": connection.execute(overdue).scalar_one(),
        "down": [dict(row._mapping) for row in connection.execute(_DOWN)],
        "ahead": [
            f"{row.binary} on {row.host}"
            for row in services.list_all(connection)
            if row.last_seen_up and row.last_seen_up > now + seconds(1)
        ],
    }
