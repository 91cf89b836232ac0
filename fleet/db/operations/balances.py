# SPDX-License-Identifier: Apache-2.0
"""Balancing of aggregates (``fleet.balance_states``): looks, rounds, and what holds moves up.

Called by modules of :mod:`conductor_stub.balance`.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import cast

import sqlalchemy as sa

from fleet import balance_states, errors, maintenance_states, move_states, recovery_states, states
from fleet.clock import seconds
from fleet.db.engine.database import Transaction
from fleet.db.hosts import guest_loads
from fleet.db.hosts.services import COMPUTE
from fleet.db.tables import models
from fleet.db.tables.operations.balance import BalanceRoundRow, BalanceRow
from fleet.json_codec import JSONMapping, JSONObject

BALANCES = models.balances
ROUNDS = models.balance_rounds
INSTANCES = models.instances
MIGRATIONS = models.migrations
_MAINTAINED = models.maintenance_hosts
_RECOVERIES = models.recoveries
_SERVICES = models.services
#: Rounds that have ended are kept for this time.
KEPT = seconds(90 * 24 * 3600)
#: Key of a move of a round that ended before it was tried. No answer has it.
UNTRIED = "untried"
#: Key in what a round has seen: stands for the hosts whose mean it is. No answer has it.
COUNTED = "counted"
#: After a host has gone silent, no moves begin for this time, unless its recovery has ended before.
SILENT = seconds(600)
_MOST_REMOVED = 500
_LOADS_KEPT = seconds(24 * 3600)

_OF_AGGREGATE = sa.bindparam("of_aggregate", type_=sa.String)
_WANTED = sa.bindparam("wanted", type_=sa.String)
_ONE = sa.select(BALANCES).where(BALANCES.c.aggregate == _OF_AGGREGATE)
_ALL = sa.select(BALANCES).order_by(BALANCES.c.aggregate)
_ROUND = sa.select(ROUNDS).where(ROUNDS.c.uuid == _WANTED)
_NEWEST = sa.select(ROUNDS).order_by(ROUNDS.c.id.desc())
#: The time of the end has an index: of most rounds it is known.
_MOVING = (
    sa.select(ROUNDS).where(ROUNDS.c.ended_at.is_(None), ROUNDS.c.status == balance_states.MOVING).order_by(ROUNDS.c.id)
)
_HOSTS: sa.BindParameter[object] = sa.bindparam("hosts", expanding=True)
_TAKEN = (
    sa.select(_MAINTAINED.c.open_host)
    .where(_MAINTAINED.c.open_host.in_(_HOSTS), _MAINTAINED.c.status.in_(maintenance_states.TAKEN))
    .order_by(_MAINTAINED.c.open_host)
    .limit(1)
)
_RECOVERED = (
    sa.select(_RECOVERIES.c.host)
    .where(_RECOVERIES.c.host.in_(_HOSTS), _RECOVERIES.c.status.in_(recovery_states.OPEN))
    .order_by(_RECOVERIES.c.host)
    .limit(1)
)
_BUILDS = (
    sa.select(sa.func.count())
    .select_from(INSTANCES)
    .where(
        INSTANCES.c.vm_state == states.BUILDING,
        sa.not_(INSTANCES.c.deleted),
        # A build that waits for room has no host, and may wait for days.
        sa.func.coalesce(INSTANCES.c.task_state, "") != states.QUEUED,
        sa.or_(INSTANCES.c.host.is_(None), INSTANCES.c.host.in_(_HOSTS)),
    )
)
_MOVES = (
    sa.select(sa.func.count())
    .select_from(MIGRATIONS)
    .where(
        MIGRATIONS.c.status.in_(move_states.UNDER_WAY),
        sa.or_(MIGRATIONS.c.source_compute.in_(_HOSTS), MIGRATIONS.c.dest_compute.in_(_HOSTS)),
    )
)
_SINCE: sa.BindParameter[datetime.datetime] = sa.bindparam("since", type_=models.Timestamp)
#: Agents that were stopped have no last heartbeat.
_SILENT = (
    sa.select(_SERVICES.c.host)
    .where(
        _SERVICES.c.binary == COMPUTE,
        _SERVICES.c.host.in_(_HOSTS),
        _SERVICES.c.last_seen_up.between(_SINCE, sa.bindparam("until", type_=models.Timestamp)),
        sa.not_(_SERVICES.c.deleted),
    )
    .order_by(_SERVICES.c.host)
    .limit(1)
)
#: The record of an evacuation is written once more when its former host has cleaned up, which may be days later.
_CLEANED = sa.and_(MIGRATIONS.c.migration_type == move_states.EVACUATION, MIGRATIONS.c.status == move_states.COMPLETED)
_MOVED = (
    sa.select(MIGRATIONS.c.instance_uuid)
    .where(
        # By the index of instances: records of moves that have ended are many.
        MIGRATIONS.c.instance_uuid.in_(sa.select(INSTANCES.c.uuid).where(INSTANCES.c.host.in_(_HOSTS))),
        sa.or_(MIGRATIONS.c.created_at >= _SINCE, sa.and_(MIGRATIONS.c.updated_at >= _SINCE, sa.not_(_CLEANED))),
        sa.or_(MIGRATIONS.c.source_compute.in_(_HOSTS), MIGRATIONS.c.dest_compute.in_(_HOSTS)),
    )
    .distinct()
    .order_by(MIGRATIONS.c.instance_uuid)
)
_CHANGED = (
    sa.select(MIGRATIONS.c.source_compute, MIGRATIONS.c.dest_compute, MIGRATIONS.c.updated_at)
    .where(
        MIGRATIONS.c.instance_uuid.in_(sa.select(INSTANCES.c.uuid).where(INSTANCES.c.host.in_(_HOSTS))),
        MIGRATIONS.c.updated_at >= _SINCE,
        sa.not_(_CLEANED),
    )
    .order_by(MIGRATIONS.c.uuid)
)
_LAUNCHED = (
    sa.select(INSTANCES.c.host, sa.func.max(INSTANCES.c.launched_at, type_=models.Timestamp))
    .where(INSTANCES.c.host.in_(_HOSTS), INSTANCES.c.launched_at >= _SINCE)
    .group_by(INSTANCES.c.host)
    .order_by(INSTANCES.c.host)
)
_LATELY = (
    sa.select(ROUNDS.c.moves)
    .where(
        ROUNDS.c.aggregate == _OF_AGGREGATE,
        # A suggestion may be older than the cooldown when it is run.
        sa.or_(ROUNDS.c.ended_at.is_(None), ROUNDS.c.ended_at >= _SINCE),
    )
    .order_by(ROUNDS.c.id)
)
_STATUSES = (
    sa.select(MIGRATIONS.c.uuid, MIGRATIONS.c.status, MIGRATIONS.c.failure)
    .where(MIGRATIONS.c.uuid.in_(sa.bindparam("uuids", expanding=True)))
    .order_by(MIGRATIONS.c.uuid)
)


def lock(tx: Transaction, aggregate: str) -> BalanceRow:
    """Lock the row of an aggregate, so that one conductor at a time reads its loads and begins its moves."""
    locked = _ONE.with_for_update()
    row = tx.execute(locked, {"of_aggregate": aggregate}).one_or_none()
    if row is None:
        tx.insert(BALANCES, {"aggregate": aggregate, "hot_since": {}})
        row = tx.execute(locked, {"of_aggregate": aggregate}).one()
    return cast("BalanceRow", row)


def lock_all(tx: Transaction, aggregate: str) -> BalanceRow:
    """Lock the rows of all aggregates, and return that of one, as :func:`lock`.

    A round begins under it: aggregates may share hosts, on which one round at a time moves guests.
    """
    rows = {row.aggregate: row for row in tx.execute(_ALL.with_for_update())}
    return cast("BalanceRow", rows.get(aggregate) or lock(tx, aggregate))


def list_all(connection: Transaction | sa.Connection) -> dict[str, BalanceRow]:
    """Return the rows by aggregate. Aggregates at which no conductor has looked are left out."""
    return {row.aggregate: cast("BalanceRow", row) for row in connection.execute(_ALL)}


def update(tx: Transaction, aggregate: str, **values: object) -> None:
    tx.update(BALANCES, aggregate, values)


def newest(connection: Transaction | sa.Connection, aggregate: str | None, limit: int) -> Sequence[BalanceRoundRow]:
    """Return rounds, the newest first. :param aggregate: None: of all"""
    query = _NEWEST if aggregate is None else _NEWEST.where(ROUNDS.c.aggregate == aggregate)
    return cast("Sequence[BalanceRoundRow]", connection.execute(query.limit(limit)).all())


def newest_made(connection: Transaction | sa.Connection, aggregate: str) -> BalanceRoundRow | None:
    """Return the newest round whose moves have begun; None if there is none."""
    begun = ROUNDS.c.status.in_((balance_states.MOVING, balance_states.DONE))
    query = _NEWEST.where(ROUNDS.c.aggregate == aggregate, begun).limit(1)
    return cast("BalanceRoundRow | None", connection.execute(query).first())


def moving(connection: Transaction | sa.Connection) -> Sequence[BalanceRoundRow]:
    """Return the rounds whose moves have not all ended."""
    return cast("Sequence[BalanceRoundRow]", connection.execute(_MOVING).all())


def get(connection: Transaction | sa.Connection, uuid: str) -> BalanceRoundRow:
    """:raises errors.NotFound:"""
    row = connection.execute(_ROUND, {"wanted": uuid}).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Round of balancing", name=uuid)
    return cast("BalanceRoundRow", row)


def create(tx: Transaction, values: Mapping[str, object]) -> None:
    if tx.execute(_ROUND, {"wanted": values["uuid"]}).first() is None:
        tx.insert(ROUNDS, values)


def change(tx: Transaction, row: BalanceRoundRow, **values: object) -> None:
    tx.update(ROUNDS, row.id, values)


def holding_up(
    connection: Transaction | sa.Connection,
    hosts: Collection[str],
    aggregate: str,
    now: datetime.datetime,
    down_time_s: float,
) -> str:
    """Return why no guest of these hosts of an aggregate should move now; "" if nothing is against it."""
    wanted = {"hosts": sorted(hosts)}
    if out := out_of_use(connection, hosts, now, down_time_s):
        return out
    for query, what in ((_BUILDS, "builds"), (_MOVES, "moves")):
        number = connection.execute(query, wanted).scalar_one()
        if number:
            return f"{number} {what} are under way"
    for row in moving(connection):
        places = {each[end] for each in row.moves for end in ("source", "destination")}
        if row.aggregate != aggregate and places & set(hosts):
            return f"a round of aggregate {row.aggregate} is under way"
    return ""


def out_of_use(
    connection: Transaction | sa.Connection, hosts: Collection[str], now: datetime.datetime, down_time_s: float
) -> str:
    """Return that a host is recovered, is in a maintenance, or has just gone silent; "" if none is.

    Whatever is on a silent host may need the room of others soon.
    """
    of_hosts, until = {"hosts": sorted(hosts)}, now - seconds(down_time_s)
    for query, what, more in (
        (_RECOVERED, "is recovered", {}),
        (_TAKEN, "is in a maintenance", {}),
        (_SILENT, "has gone silent", {"since": until - SILENT, "until": until}),
    ):
        host = connection.execute(query, {**of_hosts, **more}).scalar()
        if host is not None:
            return f"host {host} {what}"
    return ""


def moved_since(connection: Transaction | sa.Connection, hosts: Collection[str], since: datetime.datetime) -> set[str]:
    """Return the instances on these hosts whose moves to or from them have begun or ended since then, by whomever."""
    return set(connection.execute(_MOVED, {"hosts": sorted(hosts), "since": since}).scalars())


def changed_since(
    connection: Transaction | sa.Connection, hosts: Collection[str], since: datetime.datetime
) -> dict[str, datetime.datetime]:
    """Return the hosts where guests have come or gone since then, by moves or builds, and when they did last."""
    wanted = {"hosts": sorted(hosts), "since": since}
    found: dict[str, datetime.datetime] = {}
    moves = connection.execute(_CHANGED, wanted).all()
    ends = [(host, at) for source, destination, at in moves for host in (source, destination)]
    for host, at in [*ends, *(tuple(row) for row in connection.execute(_LAUNCHED, wanted))]:
        found[host] = max(at, found.get(host, at))
    return found


def shown_moves(row: BalanceRoundRow) -> list[JSONObject]:
    """Return the moves of a round as answers have them."""
    return [{name: value for name, value in each.items() if name != UNTRIED} for each in row.moves]


def shown_seen(seen: JSONMapping) -> JSONObject:
    """Return what a round has seen as answers have it."""
    return {name: value for name, value in seen.items() if name != COUNTED}


def failed_since(connection: sa.Connection, aggregate: str, since: datetime.datetime) -> set[str]:
    """Return the instances whose moves in rounds since then were tried and failed: the same moves would fail again."""
    moves = (
        each for row in connection.execute(_LATELY, {"of_aggregate": aggregate, "since": since}) for each in row.moves
    )
    return {each["instance_uuid"] for each in moves if each["status"] == balance_states.FAILED and UNTRIED not in each}


def statuses(connection: Transaction | sa.Connection, migrations: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return status and failure of these moves."""
    rows = connection.execute(_STATUSES, {"uuids": sorted(migrations)}) if migrations else ()
    return {row.uuid: (row.status, str((row.failure or {}).get("message") or "")) for row in rows}


def remove_old(tx: Transaction, now: datetime.datetime) -> int:
    """Remove rounds that ended, or were seen last, longer ago than KEPT. Return how many.

    Loads of hosts that do not report are removed, too.
    """
    guest_loads.remove_before(tx, now - _LOADS_KEPT)
    # Of an aggregate that was turned off or deleted.
    left = sa.and_(ROUNDS.c.status == balance_states.SUGGESTED, ROUNDS.c.seen_at < now - KEPT)
    old = sa.select(ROUNDS.c.id).where(sa.or_(ROUNDS.c.ended_at < now - KEPT, left)).order_by(ROUNDS.c.id)
    going = tx.execute(old.limit(_MOST_REMOVED)).scalars().all()
    if going:
        tx.execute(ROUNDS.delete().where(ROUNDS.c.id.in_(going)))
    return len(going)
