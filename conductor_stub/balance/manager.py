# SPDX-License-Identifier: Apache-2.0
"""The methods by which operators read and change the balancing of aggregates.

``fleet balance`` calls them, over RPC or through ``fleet-api``.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Mapping
from typing import Annotated

import pydantic

from conductor_stub.balance.trying import Trying
from conductor_stub.steps.acts import Acts
from conductor_stub.steps.balance_settings import BalanceSettings
from fleet import balance_states, errors
from fleet.clock import Clock, as_text, seconds
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database, Transaction
from fleet.db.hosts import aggregates
from fleet.db.operations import balances
from fleet.db.tables.operations.balance import BalanceRoundRow
from fleet.objects import fields
from fleet.objects.answers.balances import BalanceRound, BalanceView
from fleet.rpc.endpoint import endpoint, served

#: Rounds of one answer.
Limit = Annotated[int, pydantic.Strict(), pydantic.Field(ge=1, le=1000)]


class BalanceManager:
    """The RPC surface of the namespace ``operator`` for balancing."""

    target = served("conductor", "operator")

    def __init__(self, database: Database, trying: Trying, settings: BalanceSettings, clock: Clock) -> None:
        self._database = database
        self._old_s = settings.old_s
        self._trying = trying
        self._clock = clock
        self._acts = Acts(database, clock)

    @endpoint
    def list_balances(self, context: RequestContext) -> list[BalanceView]:
        """Return all aggregates with their modes, and the loads of the last look."""
        return self._database.read(_views)

    @endpoint
    def list_balance_rounds(
        self, context: RequestContext, aggregate: fields.Name | None = None, limit: Limit = 20
    ) -> list[BalanceRound]:
        """Return rounds, the newest first.

        :param aggregate: None: of all
        :raises errors.NotFound: there is no such aggregate
        """
        name = None if aggregate is None else self._name(aggregate)
        return [_round(row) for row in self._database.read(balances.newest, name, limit)]

    def _name(self, aggregate: str) -> str:
        """Rows of balancing have the name of the aggregate; callers may also give its uuid or id."""
        return self._database.read(aggregates.find, aggregate).name

    @endpoint
    def suggest_balance(self, context: RequestContext, aggregate: fields.Name) -> BalanceRound:
        """Return the moves that would help hosts which are hot now. Nothing is written, and nothing is waited for.

        :raises errors.NotFound: there is no such aggregate
        """
        now, aggregate = self._clock(), self._name(aggregate)
        _found, record = self._trying.round(aggregate, {}, now, at_once=True)
        status = balance_states.SUGGESTED if record["moves"] else balance_states.NOTHING
        moment = as_text(now)
        return {
            "uuid": None,
            "aggregate": aggregate,
            "mode": balance_states.SUGGEST,
            "status": status,
            "seen": balances.shown_seen(record["seen"]),  # type: ignore[typeddict-item]
            "moves": record["moves"],
            "not_done": record["not_done"],
            "after": None,
            "created_at": moment,
            "seen_at": moment,
            "ended_at": None,
        }

    @endpoint
    def run_balance(
        self, context: RequestContext, aggregate: fields.Name, uuid: fields.Uuid | None = None
    ) -> BalanceRound:
        """Begin the moves of the newest suggestion. Filters and claims judge each of them once more.

        :param uuid: the suggestion must be this one
        :raises errors.NotFound: there is no such aggregate
        :raises errors.Conflict: there is no such suggestion any more, or the mode is not confirm
        """
        aggregate = self._name(aggregate)
        shown = functools.partial(_status, aggregate=aggregate)
        return _round(
            self._acts.write(
                context,
                "balance.run",
                aggregate,
                shown,
                _run,
                aggregate,
                uuid,
                self._clock(),
                self._old_s,
                self._trying.down_time_s,
            )
        )

    @endpoint
    def pause_balance(self, context: RequestContext, aggregate: fields.Name, paused: fields.Flag) -> BalanceView:
        """Begin no more moves, or go on. Moves that are under way go on.

        :raises errors.NotFound: there is no such aggregate
        """
        aggregate = self._name(aggregate)
        act = "balance.pause" if paused else "balance.resume"
        shown = functools.partial(_paused, aggregate=aggregate)
        self._acts.write(context, act, aggregate, shown, _pause, aggregate, paused)
        return next(each for each in self._database.read(_views) if each["aggregate"] == aggregate)


def _pause(tx: Transaction, aggregate: str, paused: bool) -> None:
    balances.lock(tx, aggregate)
    # A look that is under way is none any more: see keeper._keep.
    balances.update(tx, aggregate, paused=paused, hot_since={}, looked_at=None)


def _paused(tx: Transaction, aggregate: str) -> dict[str, object]:
    return {"paused": balances.lock(tx, aggregate).paused}


def _run(
    tx: Transaction, aggregate: str, uuid: str | None, now: datetime.datetime, old_s: float, down_time_s: float
) -> BalanceRoundRow:
    found = {"kind": "Balancing of aggregate", "name": aggregate}
    if balances.lock_all(tx, aggregate).paused:
        raise errors.Conflict(**found, reason="is paused")
    there = aggregates.named(tx, aggregate)
    mode = there.metadata.get(balance_states.METADATA)
    if mode not in (balance_states.CONFIRM, balance_states.AUTO):
        reason = (
            f"has the mode {mode or balance_states.OFF}: set {balance_states.METADATA}={balance_states.CONFIRM} on it"
        )
        raise errors.Conflict(**found, reason=reason)
    newest = balances.newest(tx, aggregate, 1)
    if newest and newest[0].uuid == uuid and newest[0].status == balance_states.MOVING:
        # A repeated request, or the outcome of its commit was unknown.
        return newest[0]
    if newest and newest[0].status == balance_states.MOVING:
        raise errors.Conflict(**found, reason=f"is moving guests: round {newest[0].uuid}")
    if not newest or newest[0].status != balance_states.SUGGESTED:
        raise errors.Conflict(**found, reason="has no suggestion")
    if uuid is not None and newest[0].uuid != uuid:
        raise errors.Conflict(**found, reason=f"has another suggestion now: {newest[0].uuid}")
    if now - newest[0].seen_at > seconds(old_s):
        raise errors.Conflict(**found, reason="has no suggestion of its last looks: wait for the next one")
    held_up = balances.holding_up(tx, there.hosts, aggregate, now, down_time_s)
    if held_up:
        raise errors.Conflict(**found, reason=f"waits: {held_up}")
    balances.change(tx, newest[0], status=balance_states.MOVING)
    return balances.get(tx, newest[0].uuid)


def _status(tx: Transaction, aggregate: str) -> dict[str, object]:
    return {each.uuid: each.status for each in balances.newest(tx, aggregate, 1)}


def _views(connection: Connection) -> list[BalanceView]:
    known = balances.list_all(connection)
    found: list[BalanceView] = []
    for each in sorted(aggregates.list_all(connection), key=lambda each: each.name):
        mode = balance_states.mode_of(each.metadata)
        row = known.get(each.name)
        last = balances.newest(connection, each.name, 1) if row is not None else ()
        is_off = mode == balance_states.OFF
        if is_off and last and last[0].status != balance_states.MOVING:
            last = ()  # what was seen before it was turned off is its history
        found.append(
            {
                "aggregate": each.name,
                "mode": mode,
                "paused": bool(row is not None and row.paused),
                "looked_at": as_text(row.looked_at) if row is not None else None,
                "hot_since": _moments(row.hot_since) if row is not None and not is_off else {},
                "last": _round(last[0]) if last else None,
            }
        )
    return found


def _moments(hot_since: Mapping[str, str]) -> dict[str, str]:
    return {host: as_text(datetime.datetime.fromisoformat(since)) for host, since in hot_since.items()}


def _round(row: BalanceRoundRow) -> BalanceRound:
    return {
        "uuid": row.uuid,
        "aggregate": row.aggregate,
        "mode": row.mode,
        "status": row.status,
        "seen": balances.shown_seen(row.seen),  # type: ignore[typeddict-item]
        "moves": balances.shown_moves(row),  # type: ignore[typeddict-item]
        "not_done": row.not_done,
        "after": row.after,
        "created_at": as_text(row.created_at),
        "seen_at": as_text(row.seen_at),
        "ended_at": as_text(row.ended_at),
    }
