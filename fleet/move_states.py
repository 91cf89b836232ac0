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

``preparing``: a conductor has taken it; the destination must claim. ``pre-migrating``: the destination holds what the
instance will need; the source must switch the guest off, or in an evacuation the destination must build it again.
``post-migrating``: the destination must start the guest. ``reverting``: the destination must undo its part.
``resuming``: the source must start its guest again. ``completed``: the source came back and destroyed its stale guest.
All names but ``resuming`` are nova's.

Whatever the status, the record *holds* at most one claim beside the instance's own: on the destination until the
instance arrives, on the source from then until it is confirmed. A node has used what its instances and the records hold.
"""

from __future__ import annotations

from typing import Final

RESIZE: Final = "resize"
EVACUATION: Final = "evacuation"

ACCEPTED: Final = "accepted"
PREPARING: Final = "preparing"
PRE_MIGRATING: Final = "pre-migrating"
POST_MIGRATING: Final = "post-migrating"
FINISHED: Final = "finished"
CONFIRMING: Final = "confirming"
CONFIRMED: Final = "confirmed"
REVERTING: Final = "reverting"
RESUMING: Final = "resuming"
REVERTED: Final = "reverted"
DONE: Final = "done"
COMPLETED: Final = "completed"
ERROR: Final = "error"

#: No destination has claimed yet.
UNCLAIMED: Final = (ACCEPTED, PREPARING)
#: A host or a conductor must act.
UNDER_WAY: Final = (*UNCLAIMED, PRE_MIGRATING, POST_MIGRATING, CONFIRMING, REVERTING, RESUMING)
IN_PROGRESS: Final = (*UNDER_WAY, FINISHED)

#: In the order of a move.
ALL: Final = (*IN_PROGRESS, CONFIRMED, REVERTED, DONE, COMPLETED, ERROR)

_BY_SOURCE = {(RESIZE, PRE_MIGRATING), (RESIZE, CONFIRMING), (RESIZE, RESUMING)}
_BY_DESTINATION = {
    (RESIZE, PREPARING),
    (RESIZE, POST_MIGRATING),
    (RESIZE, REVERTING),
    (EVACUATION, PREPARING),
    (EVACUATION, PRE_MIGRATING),
}


def actor(migration_type: str, status: str, source: str, destination: str | None) -> str | None:
    """Return the host that must act; None if a conductor must, or none."""
    if (migration_type, status) in _BY_SOURCE:
        return source
    return destination if (migration_type, status) in _BY_DESTINATION else None
