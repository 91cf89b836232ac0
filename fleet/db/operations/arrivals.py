# SPDX-License-Identifier: Apache-2.0
"""Guests that a host may run, while the ledger has their instances elsewhere, or nowhere yet.

Such a host must be off for certain before the guest starts elsewhere, if it has data or addresses, and soon after that
otherwise. So it has a recovery of its own, like a host with guests. Called by modules of :mod:`conductor_stub.recovery`.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable
from typing import NamedTuple, cast

import sqlalchemy as sa

from fleet import move_states, states
from fleet.db.engine.database import Transaction
from fleet.db.hosts import services
from fleet.db.instances import builds
from fleet.db.tables import models
from fleet.db.tables.moves import MigrationRow

EVENTS = models.instance_events
INSTANCES = models.instances
MIGRATIONS = models.migrations
GUESTS = models.recovery_guests
RECOVERIES = models.recoveries
SERVICES = services.SERVICES
#: Kinds and statuses in which the destination may have started the guest. A live migration has rules of its own.
STARTED_THERE = tuple(each for each in move_states.MAY_RUN_THERE if each[0] != move_states.LIVE_MIGRATION)
_HOSTS: sa.BindParameter[str] = sa.bindparam("hosts", expanding=True)
_MOVING = (
    sa.select(MIGRATIONS.c.dest_compute.label("host"), sa.func.count().label("number"))
    .where(
        MIGRATIONS.c.dest_compute.in_(_HOSTS),
        MIGRATIONS.c.status.in_(sorted({status for _kind, status in move_states.MAY_RUN_THERE})),
        sa.or_(
            *(
                sa.and_(MIGRATIONS.c.migration_type == kind, MIGRATIONS.c.status == status)
                for kind, status in move_states.MAY_RUN_THERE
            )
        ),
    )
    .group_by(MIGRATIONS.c.dest_compute)
    .order_by(MIGRATIONS.c.dest_compute)
)
#: Hosts that were neither fenced nor forced down since their last heartbeat. With fence = none or storage, a recovery that
#: goes on without a fence command counts as a fence.
_SILENT = (
    sa.select(SERVICES.c.host, SERVICES.c.last_seen_up)
    .where(
        SERVICES.c.binary == services.COMPUTE,
        SERVICES.c.host.in_(_HOSTS),
        SERVICES.c.last_seen_up.is_not(None),
        sa.not_(SERVICES.c.deleted),
        sa.not_(SERVICES.c.forced_down),
        sa.not_(
            sa.exists().where(RECOVERIES.c.host == SERVICES.c.host, RECOVERIES.c.fenced_at >= SERVICES.c.last_seen_up)
        ),
    )
    .order_by(SERVICES.c.host)
)
_SINCE = sa.bindparam("since", type_=models.Timestamp)
#: Statuses of a record after its destination was given up; that of an evacuation may be ``completed``, too, as those of
#: most records. There are few others.
_AFTERWARDS = (*move_states.UNDER_WAY, move_states.REVERTED, move_states.DONE, move_states.ERROR)
#: The event of a host that was given up was written in a transaction that has also updated the record.
_BY_RECORDS = (
    sa.select(MIGRATIONS.c.instance_uuid)
    .where(MIGRATIONS.c.status.in_(_AFTERWARDS), MIGRATIONS.c.updated_at > _SINCE)
    .distinct()
    .order_by(MIGRATIONS.c.instance_uuid)
)
#: An evacuation that is ``completed`` belonged to the recovery of a host that is back by now.
_BY_RECOVERIES = (
    sa.select(GUESTS.c.instance_uuid)
    .join(RECOVERIES, RECOVERIES.c.uuid == GUESTS.c.recovery_uuid)
    .where(RECOVERIES.c.ended_at > _SINCE)
    .distinct()
    .order_by(GUESTS.c.instance_uuid)
)
_GIVEN_UP = (
    sa.select(EVENTS.c.id, EVENTS.c.host, EVENTS.c.instance_uuid, EVENTS.c.created_at)
    .join(INSTANCES, INSTANCES.c.uuid == EVENTS.c.instance_uuid)
    .where(
        EVENTS.c.instance_uuid.in_(sa.bindparam("these", expanding=True)),
        EVENTS.c.host.in_(_HOSTS),
        EVENTS.c.created_at > _SINCE,
        EVENTS.c.result == move_states.LOST,
        sa.or_(*(sa.and_(EVENTS.c.event == kind, EVENTS.c.step == status) for kind, status in STARTED_THERE)),
        sa.not_(INSTANCES.c.deleted),
        sa.or_(INSTANCES.c.task_state.is_(None), INSTANCES.c.task_state != states.DELETING),
    )
    .order_by(EVENTS.c.id)
)
#: Instances whose events one statement reads.
_AT_ONCE = 1000
#: Hosts that are not forced down. Builds on those that are forced down go on elsewhere by themselves.
_AWAITED = (
    sa.select(SERVICES.c.host)
    .where(
        SERVICES.c.binary == services.COMPUTE,
        SERVICES.c.host.in_(_HOSTS),
        sa.not_(SERVICES.c.deleted),
        sa.not_(SERVICES.c.forced_down),
    )
    .order_by(SERVICES.c.host)
)
_SPAWNING = (
    sa.select(INSTANCES.c.host, sa.func.count().label("number"))
    .where(
        INSTANCES.c.vm_state == states.BUILDING,
        INSTANCES.c.task_state == states.SPAWNING,
        INSTANCES.c.host.in_(_HOSTS),
        sa.not_(INSTANCES.c.deleted),
    )
    .group_by(INSTANCES.c.host)
    .order_by(INSTANCES.c.host)
)
#: Only those that a host is ordered to remove have a deadline.
_LEFT = (
    sa.select(INSTANCES.c.uuid, INSTANCES.c.shelved, INSTANCES.c.details)
    .where(
        INSTANCES.c.vm_state.in_((states.ERROR, states.SHELVED_OFFLOADED)),
        INSTANCES.c.task_state.is_(None),
        INSTANCES.c.step_deadline.is_not(None),
        INSTANCES.c.host.is_(None),
        sa.not_(INSTANCES.c.deleted),
    )
    .order_by(INSTANCES.c.uuid)
)


class Arrivals(NamedTuple):
    """The number of guests that may run on a host.

    :ivar builds: under way there, or given up while the host may have the guest
    :ivar moving: their moves wait for the host
    :ivar given_up: their moves went on without the host, which has been silent since
    """

    moving: int = 0
    builds: int = 0
    given_up: int = 0

    def told(self) -> list[str]:
        """Return the numbers in words, without those that are 0."""
        words = {f"{self.moving} that were moving to it": self.moving}
        words[f"{self.builds} builds that may run there"] = self.builds
        words[f"{self.given_up} that were given up there and may run"] = self.given_up
        return [said for said, number in words.items() if number]


def numbers(tx: Transaction, hosts: Collection[str]) -> dict[str, Arrivals]:
    """Return the numbers of such guests by host, without hosts that have none."""
    if not hosts:
        return {}
    wanted = {"hosts": sorted(hosts)}
    moving = {row.host: row.number for row in tx.execute(_MOVING, wanted)}
    built, given_up = _builds(tx, hosts), _given_up(tx, hosts)
    return {
        host: Arrivals(moving.get(host, 0), built[host], given_up[host])
        for host in sorted(moving.keys() | given_up.keys() | built.keys())
    }


def _builds(tx: Transaction, hosts: Collection[str]) -> collections.Counter[str]:
    awaited = set(tx.execute(_AWAITED, {"hosts": sorted(hosts)}).scalars())
    found: collections.Counter[str] = collections.Counter()
    if awaited:
        found.update({row.host: row.number for row in tx.execute(_SPAWNING, {"hosts": sorted(awaited)})})
        left = map(builds.host_of_left_guest, cast("Iterable[builds.LeftGuest]", tx.execute(_LEFT)))
        found.update(host for host in left if host is not None and host in awaited)
    return found


def _given_up(tx: Transaction, hosts: Collection[str]) -> collections.Counter[str]:
    silent = {row.host: row.last_seen_up for row in tx.execute(_SILENT, {"hosts": sorted(hosts)})}
    if not silent:
        return collections.Counter()
    since = {"since": min(silent.values())}
    moved = sorted({*tx.execute(_BY_RECORDS, since).scalars(), *tx.execute(_BY_RECOVERIES, since).scalars()})
    found = set()
    for first in range(0, len(moved), _AT_ONCE):
        these = {"these": moved[first : first + _AT_ONCE], "hosts": sorted(silent), **since}
        rows = tx.execute(_GIVEN_UP, these)
        found |= {(row.host, row.instance_uuid) for row in rows if row.created_at > silent[row.host]}
    return collections.Counter(host for host, _instance in found)


def is_one(record: MigrationRow) -> bool:
    return (record.migration_type, record.status) in move_states.MAY_RUN_THERE
