# SPDX-License-Identifier: Apache-2.0
"""The periodic task of a conductor for balancing: looks at aggregates, and goes on with the moves of rounds.

Called by :mod:`conductor_stub.balance.wiring`.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_log import log as logging
from oslo_utils import uuidutils

from conductor_stub.balance.guests_load import SETTLED_S
from conductor_stub.balance.trying import Trying
from conductor_stub.moves import acceptance
from conductor_stub.moves.placement import MovePlacement
from conductor_stub.parts import Tell
from conductor_stub.steps.apart import apart
from conductor_stub.steps.balance_settings import BalanceSettings
from conductor_stub.steps.limits import StepContext
from fleet import balance_states, errors, failpoints, move_states
from fleet.clock import Clock, seconds
from fleet.context import new_context
from fleet.db.engine.database import Connection, Database, Transaction
from fleet.db.hosts import aggregates
from fleet.db.instances import instances
from fleet.db.operations import balances
from fleet.db.tables.operations.balance import BalanceRoundRow
from fleet.telemetry import metrics
from fleet.telemetry.rate_limited_log import RateLimit

LOG = logging.getLogger(__name__)

#: Seconds between two looks at what is due.
EVERY_S = 5
#: Intervals without a look after which the loads since the last look are unknown.
_LATE_LOOKS = 3
_ENDED = (balance_states.DONE, balance_states.FAILED)


class BalanceKeeper:
    def __init__(
        self,
        database: Database,
        placement: MovePlacement,
        trying: Trying,
        settings: BalanceSettings,
        clock: Clock,
        tell: Tell,
    ) -> None:
        """
        :param clock: the database's time, read for each call
        :param tell: sends a notification
        """
        self._tell = tell
        self._database = database
        self._placement = placement
        self._trying = trying
        self._settings = settings
        self._clock = clock
        self._said = RateLimit()
        #: Aggregates with a value of the metric.
        self._measured: set[str] = set()

    def go_on(self) -> None:
        """Continue the moves of the rounds that are under way."""
        for row in self._database.read(balances.moving):
            with apart(f"Balancing of aggregate {row.aggregate}"):
                self._move(row)

    def look(self) -> None:
        """Begin rounds of the aggregates that are due."""
        modes = self._database.read(_modes)
        for gone in self._measured - modes.keys():
            metrics.BALANCE_ABOVE_MEAN.remove(gone)
        self._measured &= modes.keys()
        for aggregate, mode in modes.items():
            with apart(f"Balancing of aggregate {aggregate}"):
                self._look_at(aggregate, mode)

    def _look_at(self, aggregate: str, mode: str) -> None:
        now = self._clock()
        hot_since = self._database.write(_take, aggregate, self._settings.interval_s, now)
        if hot_since is None:
            return
        found, record = self._trying.round(aggregate, hot_since, now, held_up=self._placement.why_pinned())
        metrics.BALANCE_ABOVE_MEAN.labels(aggregate).set(found.before)
        self._measured.add(aggregate)
        hot = {host: since.isoformat() for host, since in found.hot_since.items()}
        uuid = uuidutils.generate_uuid()
        lasting = bool(found.not_done.keys() - found.waiting)
        kept = (uuid, aggregate, mode, hot, record, lasting, self._settings, now, self._trying.down_time_s)
        if self._database.write(_keep, *kept):
            LOG.info(
                "Balancing of aggregate %s: the most loaded host is %.1f points above the mean; %d moves are %s",
                aggregate,
                found.before,
                len(found.moves),
                "begun" if mode == balance_states.AUTO else "suggested",
            )
            self._notify(uuid)

    def _move(self, row: BalanceRoundRow) -> None:
        pinned = self._placement.why_pinned()
        if pinned and self._said.due(row.aggregate) is not None:
            LOG.warning("Balancing of aggregate %s waits: %s", row.aggregate, pinned)
        for number, move in enumerate(row.moves):
            if move["status"] != balance_states.WAITING:
                continue
            uuid = uuidutils.generate_uuid()
            context = new_context().about(instance_uuid=move["instance_uuid"], migration=uuid)
            ctx = self._placement.step_context(context)
            # A round may have been begun with the oldest look that counts.
            late_s = self._settings.old_s + self._settings.interval_s
            attempt = self._database.write(_begin, row.uuid, number, uuid, ctx, late_s, pinned)
            if attempt is not None:
                metrics.BALANCE_MOVES.labels(row.aggregate).inc()
                self._placement.hand_out(context, [uuid], attempt)
        if self._database.write(_follow, row.uuid, self._clock()):
            self._notify(row.uuid)

    def _notify(self, uuid: str) -> None:
        row = self._database.read(balances.get, uuid)
        seen = {name: row.seen.get(name) for name in ("mean", "before", "expected", "hot")}
        payload = {"uuid": uuid, "aggregate": row.aggregate, "mode": row.mode, "status": row.status}
        more = {"moves": balances.shown_moves(row), "not_done": dict(row.not_done)}
        self._tell(new_context(), f"balance.round.{row.status}", {**payload, **seen, **more})


def _modes(connection: Connection) -> dict[str, str]:
    said = aggregates.metadata_under(connection, balance_states.METADATA)
    found = {name: balance_states.mode_of(metadata) for name, metadata in said.items()}
    return {name: mode for name, mode in sorted(found.items()) if mode != balance_states.OFF}


@failpoints.commits("conductor.balance_look")
def _take(
    tx: Transaction, aggregate: str, interval_s: float, now: datetime.datetime
) -> dict[str, datetime.datetime] | None:
    """Take this look. Return, by host, since when it is hot; None if no look is due."""
    row = balances.lock(tx, aggregate)
    if row.paused or (row.looked_at is not None and now - row.looked_at < seconds(interval_s)):
        return None
    late = row.looked_at is None or now - row.looked_at > seconds(_LATE_LOOKS * interval_s)
    balances.update(tx, aggregate, looked_at=now)
    # After a gap in which no conductor has looked, the hosts that were hot before may have been cool meanwhile.
    return {} if late else {host: datetime.datetime.fromisoformat(since) for host, since in row.hot_since.items()}


@failpoints.commits("conductor.balance_round")
def _keep(
    tx: Transaction,
    uuid: str,
    aggregate: str,
    mode: str,
    hot: Mapping[str, str],
    record: Mapping[str, Any],
    lasting: bool,
    settings: BalanceSettings,
    now: datetime.datetime,
    down_time_s: float,
) -> bool:
    """Write what was seen; return True if it is a new round. What was seen before, and has not changed, is none.

    :param lasting: a host has been hot for its time, and nothing is done about it
    """
    begins = mode == balance_states.AUTO and bool(record["moves"])
    row = (balances.lock_all if begins else balances.lock)(tx, aggregate)
    if row.paused or row.looked_at is None:
        # It was paused during this look, and perhaps resumed: the time of hosts that are hot begins anew.
        return False
    balances.update(tx, aggregate, hot_since=dict(hot))
    rounds = balances.newest(tx, aggregate, 1)
    last = rounds[0] if rounds else None
    made = balances.newest_made(tx, aggregate)
    if made is not None and made.status == balance_states.DONE and made.after is None and made.ended_at is not None:
        # A measurement from before the end of the moves, or from long after it, does not show their effect.
        since, settled = now - made.ended_at, seconds(max(settings.interval_s, SETTLED_S))
        in_time = settled <= since <= settled + seconds(_LATE_LOOKS * settings.interval_s)
        if in_time and _counts_the_same(made.seen, record["seen"]):
            balances.change(tx, made, after=record["seen"]["before"])
    if last is not None and last.status == balance_states.MOVING:
        return False
    if last is not None and _same(last, mode, record):
        balances.change(tx, last, seen_at=now, not_done=record["not_done"])
        return False
    if last is not None and last.status == balance_states.SUGGESTED:
        balances.change(tx, last, status=balance_states.SUPERSEDED, ended_at=now)
    if not (record["moves"] or lasting):
        return False
    if begins and _is_held_up(tx, aggregate, now, down_time_s):
        # A build or a move has begun since the hosts were read. The next look records it.
        return False
    status = balance_states.NOTHING
    if record["moves"]:
        status = balance_states.MOVING if mode == balance_states.AUTO else balance_states.SUGGESTED
    ended = {"ended_at": now} if status == balance_states.NOTHING else {}
    values = {"uuid": uuid, "aggregate": aggregate, "mode": mode, "status": status, **record}
    balances.create(tx, {**values, "created_at": now, "seen_at": now, **ended})
    return True


def _is_held_up(tx: Transaction, aggregate: str, now: datetime.datetime, down_time_s: float) -> bool:
    try:
        return bool(balances.holding_up(tx, aggregates.named(tx, aggregate).hosts, aggregate, now, down_time_s))
    except errors.NotFound:
        return True


def _counts_the_same(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return False if other hosts count in the mean: then points above it say nothing of the moves."""
    return before.get(balances.COUNTED) in (None, now[balances.COUNTED])


def _same(last: BalanceRoundRow, mode: str, record: Mapping[str, Any]) -> bool:
    if last.status not in (balance_states.SUGGESTED, balance_states.NOTHING) or last.mode != mode:
        return False
    if last.status == balance_states.NOTHING:
        return not record["moves"] and last.not_done.keys() == record["not_done"].keys()
    return _pairs(last.moves) == _pairs(record["moves"])


def _pairs(moves: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [(each["instance_uuid"], each["destination"]) for each in moves]


@failpoints.commits("conductor.balance_move")
def _begin(
    tx: Transaction, uuid: str, number: int, migration: str, ctx: StepContext, late_s: float, pinned: str = ""
) -> int | None:
    """Accept the live migration of a move. Return its attempt; None if it is refused, or another conductor has begun it.

    :param late_s: a move of a round that was seen longer ago does not begin
    :param pinned: why no guest can be moved now
    """
    row = balances.get(tx, uuid)
    paused = balances.lock(tx, row.aggregate).paused
    row = balances.get(tx, uuid)
    moves = [dict(each) for each in row.moves]
    move = moves[number]
    if move["migration"] == migration:
        # The outcome of its commit was unknown.
        return acceptance.FIRST_ATTEMPT
    if row.status != balance_states.MOVING or move["status"] != balance_states.WAITING:
        return None
    attempt = None
    against = "balancing was paused before it began" if paused else _not_any_more(tx, row, move)
    waits = pinned
    if not (against or pinned):
        # The conductor that has decided it may have died, and so a host since.
        hosts = aggregates.named(tx, row.aggregate).hosts
        waits = balances.out_of_use(tx, hosts, ctx.now, ctx.limits.service_down_time_s)
    if ctx.now - row.seen_at > seconds(late_s):
        against = against or f"it did not begin in time{f': {waits}' if waits else ''}"
    elif waits:
        return None
    if against:
        move.update(status=balance_states.FAILED, why=against, **{balances.UNTRIED: True})
    else:
        try:
            kind, destination = move_states.LIVE_MIGRATION, move["destination"]
            accepted = acceptance.accept(
                tx, migration, move["instance_uuid"], kind, None, ctx, destination, promised=True
            )
        except errors.DatabaseError:
            raise
        except errors.FleetError as refused:
            move.update(status=balance_states.FAILED, why=refused.message)
        else:
            move.update(status=balance_states.MOVING, migration=migration)
            attempt = accepted.attempt
    balances.change(tx, row, moves=moves)
    return attempt


def _not_any_more(tx: Transaction, row: BalanceRoundRow, move: Mapping[str, Any]) -> str:
    """Return why a move is not what was decided any more; "" if it is."""
    try:
        found, guest = aggregates.named(tx, row.aggregate), instances.get(tx, move["instance_uuid"])
    except errors.NotFound as gone:
        return gone.message
    mode = balance_states.mode_of(found.metadata)
    if mode not in (balance_states.CONFIRM, balance_states.AUTO):
        return "balancing was turned off before it began"
    if row.mode == balance_states.AUTO != mode:
        return f"the mode is {mode} now: it does not begin by itself"
    if not {move["source"], move["destination"]} <= set(found.hosts):
        return "its hosts are not all in the aggregate now"
    if guest.deleted:
        return "it is deleted"
    if guest.host != move["source"]:
        return f"it is on {guest.host or 'no host'} now"
    if guest.uuid in balances.moved_since(tx, [move["source"]], row.seen_at):
        return "has moved since the last look, or was to move"
    return "is locked" if guest.locked_by else ""


@failpoints.commits("conductor.balance_follow")
def _follow(tx: Transaction, uuid: str, now: datetime.datetime) -> bool:
    """Write how moves have ended; the round is done when all have. Return True if it is done now."""
    balances.lock(tx, balances.get(tx, uuid).aggregate)
    row = balances.get(tx, uuid)
    if row.status != balance_states.MOVING:
        return False
    moves = [dict(each) for each in row.moves]
    found = balances.statuses(tx, [each["migration"] for each in moves if each["status"] == balance_states.MOVING])
    for each in moves:
        status, failure = found.get(each["migration"], ("", ""))
        if each["status"] != balance_states.MOVING or status in move_states.IN_PROGRESS:
            continue
        if status == move_states.COMPLETED:
            each["status"] = balance_states.DONE
        else:
            each.update(status=balance_states.FAILED, why=failure or f"its move is {status or 'gone'}")
    ended = all(each["status"] in _ENDED for each in moves)
    if moves != row.moves or ended:
        more = {"status": balance_states.DONE, "ended_at": now} if ended else {}
        balances.change(tx, row, moves=moves, **more)
    return ended
