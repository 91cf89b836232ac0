# SPDX-License-Identifier: Apache-2.0
"""Decides about guests that keep dying: started again, after waits that double; then moved to another host, or ERROR.

Called by :mod:`conductor_stub.agents.manager`. Each restart is an event of the instance, so neither a restart of its
agent nor another conductor begins the count anew. The move is a cold migration, never an evacuation: the host is up,
and its agent must have switched the guest off before the destination starts it. A host that was forced down restarts
nothing, since its instances may be evacuated at any time.
"""

from __future__ import annotations

import dataclasses

from oslo_log import log as logging
from oslo_utils import uuidutils

from conductor_stub.agents import guests
from conductor_stub.agents.guests import Observation
from conductor_stub.moves import acceptance
from conductor_stub.moves.placement import MovePlacement
from conductor_stub.steps.limits import StepContext
from fleet import errors, failpoints, move_states, states
from fleet.clock import seconds
from fleet.context import RequestContext
from fleet.db.engine.database import Database, Transaction
from fleet.db.instances import history, instances, moves
from fleet.db.operations import recoveries
from fleet.db.tables.instances import RequestedInstance
from fleet.objects import fields
from fleet.objects.guest_restarts import MOST_RESTARTS, Fate, Next, RestartLimits

LOG = logging.getLogger(__name__)

#: Event: the guest is started again, or (with the result MOVED) its instance moves.
RESTART = "restart"
MOVED = "moved"
#: Events of two windows, with room for those of an earlier, higher limit.
_ALL = 4 * MOST_RESTARTS


@dataclasses.dataclass(frozen=True)
class Death:
    """A guest that an agent has found not running, as its row shows.

    :param limits: of its restarts
    :param moves: whether an instance that has used them up moves to another host, once
    """

    instance_uuid: fields.Uuid
    host: fields.Name
    power_state: int
    limits: RestartLimits
    moves: bool = False


@dataclasses.dataclass(frozen=True)
class Answer:
    """:param count: restarts on this host within the window, with one that comes now

    :param why: why it is given up
    """

    fate: Fate
    count: int = 0
    why: str = ""


@failpoints.commits("conductor.guest_restart")
def decide(tx: Transaction, death: Death, pinned: str, migration: str, ctx: StepContext) -> Answer:
    """Count the restart that the agent makes now, or give the guest up.

    :param pinned: why no instance can move while some agents are older; "" if they can
    :param migration: uuid of the record of a move, so that a repeated transaction finds it
    :raises errors.NotFound: there is no such instance
    """
    row = instances.lock(tx, death.instance_uuid)
    if moves.find(tx, migration) is not None:
        return Answer(Fate.MOVED)
    if row.deleted or row.task_state is not None or row.vm_state != states.ACTIVE or row.host != death.host:
        return Answer(Fate.WAIT)
    if death.power_state not in states.DOWN or row.power_state != death.power_state:
        return Answer(Fate.WAIT)
    if recoveries.is_off(tx, death.host):
        return Answer(Fate.WAIT, why=f"host {death.host} counts as off, and the instance may be evacuated from it")
    limits = death.limits
    began = ctx.now - seconds(limits.window_s)
    known = history.newest(tx, row.uuid, RESTART, began, MOST_RESTARTS)
    here = [each for each in known if each.host == row.host and each.result != MOVED]
    ages_s = [(ctx.now - each.created_at).total_seconds() for each in here[: limits.remembered]]
    if here and ctx.request_id is not None and here[0].request_id == ctx.request_id:
        # The answer to an earlier try was lost.
        return Answer(Fate.START, len(ages_s))
    following = limits.next(ages_s)
    if following is Next.WAIT:
        return Answer(Fate.WAIT, len(ages_s))
    if following is Next.START:
        _add_event(tx, row, f"{_nth(len(ages_s) + 1, limits)}: {states.DOWN[row.power_state]}", ctx)
        return Answer(Fate.START, len(ages_s) + 1)
    return _given_up(tx, row, death, pinned, migration, ctx)


class Restarts:
    """Called with what an agent has found."""

    def __init__(self, database: Database, placement: MovePlacement) -> None:
        self._database = database
        self._placement = placement

    def __call__(self, context: RequestContext, death: Death) -> Answer:
        context = context.about(instance_uuid=death.instance_uuid, host=death.host)
        migration, ctx = uuidutils.generate_uuid(), self._placement.step_context(context)
        try:
            answer = self._database.write(decide, death, self._pinned() if death.moves else "", migration, ctx)
        except errors.NotFound:
            return Answer(Fate.WAIT)
        if answer.fate is Fate.MOVED:
            LOG.warning("The instance moves to another host: %s", answer.why)
            self._placement.hand_out(context.about(migration=migration), [migration], acceptance.FIRST_ATTEMPT)
        elif answer.fate is Fate.FAILED:
            LOG.warning("The instance is in ERROR: %s", answer.why)
        return answer

    def _pinned(self) -> str:
        """Return why agents could start a guest without its volumes or networks; "" if none could."""
        try:
            self._placement.require_parts()
        except errors.VersionPinned as older:
            return older.message
        return ""


def _given_up(
    tx: Transaction, row: RequestedInstance, death: Death, pinned: str, migration: str, ctx: StepContext
) -> Answer:
    """``active → resize_prep``, or ``active → error``."""
    times = death.limits.most
    why = f"its guest was started {times} times within {death.limits.window_s} s, and does not run"
    if death.moves:
        against = pinned or _not_movable(tx, row, death.limits, ctx)
        if not against:
            try:
                acceptance.accept(tx, migration, row.uuid, move_states.RESIZE, None, ctx, confirms=True)
            except errors.DatabaseError:
                raise
            except errors.FleetError as refused:
                against = refused.message
            else:
                _add_event(tx, row, f"{why}: it moves to another host", ctx, MOVED)
                return Answer(Fate.MOVED, times, why)
        why = f"{why}; it does not move: {against}"
    seen = Observation(row.uuid, death.host, row.power_state, row.power_state, failed=True)
    guests.fail(tx, row, seen, ctx, f"; {why}")
    return Answer(Fate.FAILED, times, why)


def _not_movable(tx: Transaction, row: RequestedInstance, limits: RestartLimits, ctx: StepContext) -> str:
    if row.power_state == states.NOSTATE:
        return "nothing of the guest is left on its host"
    # The move itself may have taken its time, and the guest has died on its second host for at most a window.
    since = ctx.now - seconds(2 * limits.window_s + 2 * ctx.limits.move_timeout_s)
    moved = next((each for each in history.newest(tx, row.uuid, RESTART, since, _ALL) if each.result == MOVED), None)
    return f"that was tried already, from {moved.host}" if moved is not None else ""


def _nth(number: int, limits: RestartLimits) -> str:
    most = f" of {limits.most}" if limits.most else ""
    return f"start {number}{most} within {limits.window_s} s"


def _add_event(
    tx: Transaction, row: RequestedInstance, message: str, ctx: StepContext, result: str = history.SUCCESS
) -> None:
    told = {"attempt": row.attempt, "host": row.host, "node": row.node, "request_id": ctx.request_id}
    history.add_event(tx, row.uuid, RESTART, now=ctx.now, result=result, message=message, **told)
