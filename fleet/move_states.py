# SPDX-License-Identifier: Apache-2.0
"""The life of a migration record: its ``status``, moved only by compare-and-set on status and attempt.

::

    resize
        accepted ──▶ preparing ──▶ pre-migrating ──▶ post-migrating ──▶ finished ──▶ confirming ──▶ confirmed
           ▲  refused:   │               │ failed          │ failed        │ revert
           └─ try again ─┤               └────────▶ reverting ◀────────────┘
                         ▼                              ▼
                       error                        resuming ──▶ reverted, or error if no operator reverted it
    evacuation
        accepted ──▶ preparing ──▶ pre-migrating ──▶ done ──▶ completed
           ▲  refused or failed: try again │
           └───────────────────────────────┴──▶ error
    live-migration
        accepted ──▶ preparing ──▶ pre-migrating ──▶ running ──▶ post-migrating ──▶ confirming ──▶ completed
           ▲  refused or failed: try again │          │ failed, or aborted
           └───────────────────────────────┤          ▼
                                           │       reverting ──▶ error, or cancelled
                                           └──▶ error

``preparing``: a conductor has taken it; the destination must claim. ``pre-migrating``: the destination holds what the
instance will need; the source must switch the guest off, or in an evacuation the destination must build it again.
``post-migrating``: the destination must start the guest. ``reverting``: the destination must undo its part.
``resuming``: the source must start its guest again. ``completed``: the source came back and destroyed its stale guest.
All names but ``resuming`` are nova's.

A live migration: ``pre-migrating``: the destination must prepare for the guest. ``running``: the source must move it; a
record with a failure at this status is to be aborted. ``post-migrating``: the guest runs on the destination, which must take
it in.
``confirming``: the source must remove what is left of it. ``cancelled``: it was aborted.

Whatever the status, the record *holds* at most one claim beside the instance's own: on the destination until the
instance arrives, on the source from then until it is confirmed. A node has used what its instances and the records hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RESIZE: Final = "resize"
EVACUATION: Final = "evacuation"
LIVE_MIGRATION: Final = "live-migration"
#: Shown for a resize that keeps the flavor; the ledger has no such type.
MIGRATION: Final = "migration"

ACCEPTED: Final = "accepted"
PREPARING: Final = "preparing"
PRE_MIGRATING: Final = "pre-migrating"
RUNNING: Final = "running"
POST_MIGRATING: Final = "post-migrating"
FINISHED: Final = "finished"
CONFIRMING: Final = "confirming"
CONFIRMED: Final = "confirmed"
REVERTING: Final = "reverting"
RESUMING: Final = "resuming"
REVERTED: Final = "reverted"
DONE: Final = "done"
COMPLETED: Final = "completed"
CANCELLED: Final = "cancelled"
ERROR: Final = "error"

#: No destination has claimed yet.
UNCLAIMED: Final = (ACCEPTED, PREPARING)
#: A host or a conductor must act.
UNDER_WAY: Final = (*UNCLAIMED, PRE_MIGRATING, RUNNING, POST_MIGRATING, CONFIRMING, REVERTING, RESUMING)
IN_PROGRESS: Final = (*UNDER_WAY, FINISHED)

#: In the order of a move.
ALL: Final = (*IN_PROGRESS, CONFIRMED, REVERTED, DONE, COMPLETED, CANCELLED, ERROR)
#: In which an operator may abort a live migration: later the guest runs on the destination.
ABORTABLE: Final = (*UNCLAIMED, PRE_MIGRATING, RUNNING)

#: ``error`` in a record's failure: its source stopped sending heartbeats; its destination is down for certain; an operator
#: aborted it.
LOST: Final = "AttemptLost"
DESTINATION_LOST: Final = "DestinationLost"
ABORTED: Final = "Aborted"
#: Key in the ``details`` of the failure of a live migration, whichever ``error`` it has: its source is down for certain.
SOURCE_IS_OFF: Final = "source_is_off"

#: Kinds and statuses in which the destination may run the guest, though the instance is still on the source.
MAY_RUN_THERE: Final[tuple[tuple[str, str], ...]] = (
    (RESIZE, POST_MIGRATING),
    (RESIZE, REVERTING),
    (EVACUATION, PRE_MIGRATING),
    (LIVE_MIGRATION, RUNNING),
    (LIVE_MIGRATION, REVERTING),
)
_BY_SOURCE = {
    (RESIZE, PRE_MIGRATING),
    (RESIZE, CONFIRMING),
    (RESIZE, RESUMING),
    (LIVE_MIGRATION, RUNNING),
    (LIVE_MIGRATION, CONFIRMING),
}
_BY_DESTINATION = {
    (RESIZE, PREPARING),
    (RESIZE, POST_MIGRATING),
    (RESIZE, REVERTING),
    (EVACUATION, PREPARING),
    (EVACUATION, PRE_MIGRATING),
    (LIVE_MIGRATION, PREPARING),
    (LIVE_MIGRATION, PRE_MIGRATING),
    (LIVE_MIGRATION, POST_MIGRATING),
    (LIVE_MIGRATION, REVERTING),
}


def shown_type(migration_type: str, resized: bool) -> str:
    """Return the type as users see it: a resize that keeps the flavor is a migration, as in nova."""
    return MIGRATION if migration_type == RESIZE and not resized else migration_type


def actor(migration_type: str, status: str, source: str, destination: str | None) -> str | None:
    """Return the host that must act; None if a conductor must, or none."""
    if (migration_type, status) in _BY_SOURCE:
        return source
    return destination if (migration_type, status) in _BY_DESTINATION else None


def failed_with(failure: Mapping[str, object] | None, error: str) -> bool:
    """Return True if a record has this ``error`` as its failure."""
    return failure is not None and failure.get("error") == error


def has_lost_source(failure: Mapping[str, object] | None) -> bool:
    """Return True if the failure of a live migration says that its source is down for certain."""
    details = failure and failure.get("details")
    return isinstance(details, Mapping) and details.get(SOURCE_IS_OFF) is True


def is_aborted(migration_type: str, status: str, failure: Mapping[str, object] | None) -> bool:
    """Return True if the source of a live migration must abort it."""
    return (migration_type, status) == (LIVE_MIGRATION, RUNNING) and failure is not None
