# SPDX-License-Identifier: Apache-2.0
"""Signs of trouble in the ledger that a healthy fleet does not have (``fleet doctor``).

:mod:`conductor_stub.operators.diagnosis` asks for them.
"""

from __future__ import annotations

import datetime
from typing import Any

import sqlalchemy as sa

from fleet import states, volume_states
from fleet.clock import seconds
from fleet.db.engine import unreadable
from fleet.db.hosts import services
from fleet.db.instances.instances import INSTANCES
from fleet.db.instances.waiting import room_queue
from fleet.db.tables import models
from fleet.db.volumes.volumes import VOLUMES
from fleet.objects.answers.hosts import Findings

NODES = models.compute_nodes
#: Seconds. The sweeper acts on an overdue step much earlier.
SWEPT_WITHIN_S = 60
#: Seconds for the search for rows that cannot be read: callers wait for the answer.
UNREADABLE_WITHIN_S = 1.5
#: Guests, hosts, services and volumes that are named, of each kind of trouble: an answer has a limit of bytes.
MOST_NAMED = 100

_DOWN = (
    sa.select(*(INSTANCES.c[name] for name in ("uuid", "name", "host", "power_state")))
    .where(
        sa.not_(INSTANCES.c.deleted),
        INSTANCES.c.vm_state.in_((states.ACTIVE, states.RESIZED)),
        INSTANCES.c.task_state.is_(None),
        INSTANCES.c.power_state.in_(list(states.DOWN)),
    )
    .order_by(INSTANCES.c.uuid)
)
_ORPHANS = (
    sa.select(NODES.c.host, NODES.c.hypervisor_hostname, NODES.c.orphaned_memory_mb)
    .where(NODES.c.orphaned_memory_mb > 0, sa.not_(NODES.c.deleted))
    .order_by(NODES.c.host, NODES.c.hypervisor_hostname)
)
_OVERDUE = (
    sa.select(sa.func.count())
    .select_from(INSTANCES)
    .where(INSTANCES.c.step_deadline < sa.bindparam("before", type_=models.Timestamp), sa.not_(INSTANCES.c.deleted))
)

_OVERDUE_VOLUMES = (
    sa.select(sa.func.count())
    .select_from(VOLUMES)
    .where(VOLUMES.c.step_deadline < sa.bindparam("before", type_=models.Timestamp), sa.not_(VOLUMES.c.deleted))
)
_STUCK_VOLUMES = (
    sa.select(VOLUMES.c.name, VOLUMES.c.status, VOLUMES.c.host)
    .where(
        VOLUMES.c.status.in_(
            (volume_states.ERROR_EXTENDING, volume_states.ERROR_MANAGING, volume_states.ERROR_DELETING)
        ),
        # Otherwise its backend has answered.
        VOLUMES.c.host.is_not(None),
        sa.not_(VOLUMES.c.deleted),
    )
    .order_by(VOLUMES.c.updated_at, VOLUMES.c.uuid)
    .limit(MOST_NAMED)
)


def findings(connection: sa.Connection, now: datetime.datetime) -> Findings:
    """At most MOST_NAMED of each kind are named; ``numbers`` has how many there are ``down``, ``orphans`` and ``ahead``.

    ``queued`` (builds that wait for room: ``number``, ``oldest_s``), ``orphans`` (memory of guests that the ledger does
    not know), ``overdue`` steps that no sweeper acts on, instances whose guest is ``down``, services with a heartbeat
    ``ahead`` of now, and ``volumes``: ``overdue``, and those that are ``stuck`` because their backend did not extend, take
    over or delete them, and ``unreadable`` (``rows``: ``table``, ``column``, ``key``, ``name``, ``problem``; ``complete``:
    whether there was time for all rows).
    """
    number, oldest = room_queue.totals(connection)
    broken, complete = unreadable.find(connection, UNREADABLE_WITHIN_S)
    ahead = [
        f"{row.binary} on {row.host}"
        for row in services.list_all(connection)
        if row.last_seen_up and row.last_seen_up > now + seconds(1)
    ]
    return {
        "numbers": {
            "down": _number(connection, _DOWN),
            "orphans": _number(connection, _ORPHANS),
            "ahead": len(ahead),
        },
        "unreadable": {"rows": [each._asdict() for each in broken], "complete": complete},
        "queued": {"number": number, "oldest_s": (now - oldest).total_seconds() if oldest else 0.0},
        "orphans": [
            {"host": host, "node": node, "memory_mb": memory_mb}
            for host, node, memory_mb in connection.execute(_ORPHANS.limit(MOST_NAMED))
        ],
        "overdue": connection.execute(_OVERDUE, {"before": now - seconds(SWEPT_WITHIN_S)}).scalar_one(),
        "volumes": {
            "overdue": connection.execute(_OVERDUE_VOLUMES, {"before": now - seconds(SWEPT_WITHIN_S)}).scalar_one(),
            "stuck": [dict(row._mapping) for row in connection.execute(_STUCK_VOLUMES)],
        },
        "down": [dict(row._mapping) for row in connection.execute(_DOWN.limit(MOST_NAMED))],
        "ahead": ahead[:MOST_NAMED],
    }


def _number(connection: sa.Connection, found: sa.Select[Any]) -> int:
    number: int = connection.execute(
        sa.select(sa.func.count()).select_from(found.order_by(None).subquery())
    ).scalar_one()
    return number
