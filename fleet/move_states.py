# SPDX-License-Identifier: Apache-2.0
"""The life of a migration record: its ``status``, moved only by compare-and-set on status and attempt.

::

    resize
        accepted ──▶ preparing ──▶ pre-migrating ──▶ post-migrating ──▶ finished ──▶ confirming ──▶ confirmed
           ▲  refused:   │               │ failed          │ failed        │ revert
           └─ try again ─┤               └────────▶ reverting ◀────────────┘
                         ▼                              ▼
                       error                        resuming ──▶ reverted, or error where nobody had asked for it
    evacuation
        accepted ──▶ preparing ──▶ pre-migrating ──▶ done ──▶ completed
           ▲  refused or failed: try again │
           └───────────────────────────────┴──▶ error

``preparing``: a conductor has taken it, the destination is to claim. ``pre-migrating``: the destination holds what the
instance will need; the source is to switch the guest off, or, of an evacuation, the destination to build it anew.
``post-migrating``: the destination is to start the guest. ``reverting``: the destination is to undo what it did.
``resuming``: the source is to start its guest again. ``completed``: the source came back and destroyed its stale guest.
The names are nova's, but for ``resuming``.

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
#: Somebody is to act.
UNDER_WAY: Final = (*UNCLAIMED, PRE_MIGRATING, POST_MIGRATING, CONFIRMING, REVERTING, RESUMING)
IN_PROGRESS: Final = (*UNDER_WAY, FINISHED)

#: In the order of a move's life.
ALL: Final = (*IN_PROGRESS, CONFIRMED, REVERTED, DONE, COMPLETED, ERROR)
#: Ends that somebody asked for; ``finished`` waits for its operator.
GOOD_ENDS: Final = (FINISHED, CONFIRMED, REVERTED, DONE, COMPLETED)

_BY_SOURCE = {(RESIZE, PRE_MIGRATING), (RESIZE, CONFIRMING), (RESIZE, RESUMING)}
_BY_DESTINATION = {
    (RESIZE, PREPARING),
    (RESIZE, POST_MIGRATING),
    (RESIZE, REVERTING),
    (EVACUATION, PREPARING),
    (EVACUATION, PRE_MIGRATING),
}


def actor(migration_type: str, status: str, source: str, destination: str | None) -> str | None:
    """The host that is to act; None when a conductor is, or nobody."""
    if (migration_type, status) in _BY_SOURCE:
        return source
    return destination if (migration_type, status) in _BY_DESTINATION else None
