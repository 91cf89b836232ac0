# SPDX-License-Identifier: Apache-2.0
"""Limits the number of live migrations at a time: from and to one host, and in the whole fleet.

Called by :mod:`conductor_stub.moves.machine` for the source, and by :mod:`conductor_stub.moves.claims` for the
destination that the scheduler has chosen. A move without a slot waits as ``accepted``. The sweeper hands it out again, at
intervals that grow with its wait. Rows are locked, so two conductors do not take one slot.
"""

from __future__ import annotations

import datetime

from conductor_stub.steps.limits import StepContext
from fleet import move_states
from fleet.clock import seconds
from fleet.db.engine.database import Transaction
from fleet.db.instances import moves
from fleet.db.tables.moves import MigrationRow

#: Of the time that a move has waited, the share after which it is handed out again; and the most of it, in seconds.
_AGAIN, _AT_MOST_S = 0.25, 30.0


def are_limited(record: MigrationRow, ctx: StepContext) -> bool:
    limits = ctx.limits
    return record.migration_type == move_states.LIVE_MIGRATION and bool(limits.live_per_host or limits.live_in_fleet)


def taken(tx: Transaction, record: MigrationRow, host: str | None, ctx: StepContext) -> str:
    """Return what has no slot for a live migration that a caller has locked; "" if it may go on.

    :param host: that it leaves or goes to. The caller locks no further rows after this.
    """
    of_host, of_fleet = ctx.limits.live_per_host, ctx.limits.live_in_fleet
    if not are_limited(record, ctx):
        return ""
    there, all_of_them = moves.count_live(tx, host, record.uuid)
    if of_host and there >= of_host:
        return f"{there} guests leave host {host} or come to it now, of {of_host} at a time"
    if of_fleet and all_of_them >= of_fleet:
        return f"{all_of_them} guests move now, of {of_fleet} at a time"
    return ""


def until(record: MigrationRow, ctx: StepContext) -> tuple[datetime.datetime, datetime.datetime]:
    """Return when a move without a slot is handed out again, and its deadline: the wait does not count."""
    waited_s = (ctx.now - record.created_at).total_seconds()
    again_s = max(ctx.limits.retry_interval_s, min(_AGAIN * waited_s, _AT_MOST_S))
    return ctx.due(again_s), ctx.now + seconds(ctx.limits.move_timeout_s)
