# SPDX-License-Identifier: Apache-2.0
"""How many guests move while they run at a time: from and to one host, and in the whole fleet.

A move without a slot waits as ``accepted``; the sweeper hands it out again after ``retry_interval``. ``machine`` asks for
the source, and ``claims`` for the destination that the scheduler has chosen. Two conductors do not take one slot.
"""

from __future__ import annotations

import datetime

from conductor_stub.steps.limits import StepContext
from fleet import move_states
from fleet.clock import seconds
from fleet.db.engine.database import Transaction
from fleet.db.instances import moves
from fleet.db.tables.moves import MigrationRow


def taken(tx: Transaction, record: MigrationRow, host: str | None, ctx: StepContext) -> str:
    """Return what has no slot for a live migration that a caller has locked; "" if it may go on.

    :param host: that it leaves or goes to. The caller locks no further rows after this.
    """
    of_host, of_fleet = ctx.limits.live_per_host, ctx.limits.live_in_fleet
    if record.migration_type != move_states.LIVE_MIGRATION or not (of_host or of_fleet):
        return ""
    there, all_of_them = moves.count_live(tx, host, record.uuid)
    if of_host and there >= of_host:
        return f"{there} guests leave host {host} or come to it now, of {of_host} at a time"
    if of_fleet and all_of_them >= of_fleet:
        return f"{all_of_them} guests move now, of {of_fleet} at a time"
    return ""


def until(ctx: StepContext) -> tuple[datetime.datetime, datetime.datetime]:
    """Return when a move without a slot is handed out again, and its deadline: the wait does not count."""
    return ctx.due(ctx.limits.retry_interval_s), ctx.now + seconds(ctx.limits.move_timeout_s)
