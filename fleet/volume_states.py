# SPDX-License-Identifier: Apache-2.0
"""The life of a volume: ``status/step``, moved only by compare-and-set on both and the attempt.

::

    create ──▶ creating/scheduling ◀───────────────┐
                 │ a conductor takes the volume    │ a worker was lost: the sweeper hands it back
                 ▼                                 │
               creating/placing ───────────────────┘
                 │ the ledger claims space on the chosen pool, or on the next alternate
                 ▼                         ▲
               creating/working ───────────┘ failed: the claim is released, attempt + 1
                 │ the backend has made the volume
                 ▼
               available/-                   each of these ──▶ error/-   (``failure`` says why)
                 │      ▲
                 │      ├──▶ extending/working   (failed: the volume keeps its size; late: error_extending/-)
                 │      ├──▶ migrating/…         (below)
                 │      ├──▶ retyping/…          (below)
                 │      └──▶ unmanaging/working ──▶ deleted   (its data stay; late: error_managing/-)
                 ▼
               deleting/working ──▶ deleted      (late: error_deleting/-)

A migration is placed as a new volume is. While it lasts, the volume *holds* space on a second pool::

    migrating/scheduling ⇄ migrating/placing
                 │ the ledger claims space on the destination, which the volume holds
                 ▼
    migrating/copying     the destination copies the data    (failed: the next alternate, or available/- on the source)
                 │ both claims change places: from now on the volume is on the destination
                 ▼
    available/removing    the source removes its data, and its space is released ──▶ available/-

A retype asks the scheduler whether the volume may stay with its new type. If so, its own backend adapts it
(``retyping/working``). Otherwise it is copied as in a migration, if the request allows that. Failed: ``available/-`` with
the old type.

``working``: the agent of the volume's backend must act; ``copying`` and ``removing``: that of the held pool. Each order to
it only says "read the volume"; status and step say what to do. A volume keeps its claims until their backends have removed
it. ``removing`` also ends what an aborted migration has left on its destination, and what a volume that is being deleted
holds (``deleting/removing ──▶ deleting/working``).

A volume that lies on a pool already is taken over where it is::

    manage ──▶ managing/scheduling ⇄ managing/placing
                 │ the scheduler allows its type on this pool, and no other
                 ▼
               managing/working      the agent reads its size; the ledger claims it; the agent gives it the volume's name
                 ▼
               available/-           (failed: error_managing/- without a claim; late: error_managing/- with it)

Of a volume in ``managing`` or ``error_managing`` a deletion removes the row only, as ``unmanaging`` does.

A guest gets an available volume, and gives it back (``conductor_stub.attachments``). The volume has no step meanwhile: its
*attachment* is a row of its own, which has the steps::

    attach ──▶ attaching ── the host has attached it ──▶ in-use ── detach ──▶ detaching ──▶ available
                 │                                         ▲                     │
                 │ failed, or late                         └─────────────────────┤ failed, or late
                 ▼                                                               │
               detaching (without a deadline) ── the host does not have it ──▶ available

An instance that is created with volumes reserves them with its build, whose steps they follow::

    create ──▶ reserved ── the guest runs, with its volumes ──▶ in-use
                 │ the build ends in ERROR, or the instance is deleted
                 ▼
               available      (after ``detaching`` if a host may still have the guest)

An instance that is SHELVED_OFFLOADED reserves its volumes, too, until it runs again. One that is detached then is
available at once.

The attachment is ``attached`` while the volume is ``in-use``. Otherwise both have the same status. The deletion of the
instance ends each of its attachments: the volumes are available again.

A snapshot is a row of the same table. Its space is claimed when it is asked for, so its life begins with
``creating/working``; it is made on the pool of its volume or nowhere.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Final

CREATING: Final = "creating"
AVAILABLE: Final = "available"
EXTENDING: Final = "extending"
MIGRATING: Final = "migrating"
RETYPING: Final = "retyping"
MANAGING: Final = "managing"
UNMANAGING: Final = "unmanaging"
RESERVED: Final = "reserved"
ATTACHING: Final = "attaching"
IN_USE: Final = "in-use"
DETACHING: Final = "detaching"
DELETING: Final = "deleting"
DELETED: Final = "deleted"
ERROR: Final = "error"
ERROR_EXTENDING: Final = "error_extending"
ERROR_MANAGING: Final = "error_managing"
ERROR_DELETING: Final = "error_deleting"

SCHEDULING: Final = "scheduling"
PLACING: Final = "placing"
WORKING: Final = "working"
COPYING: Final = "copying"
REMOVING: Final = "removing"

#: Steps in which the backend of the held pool must act.
HOLDING: Final = (COPYING, REMOVING)
#: Steps in which a backend must act.
ACTING: Final = (WORKING, *HOLDING)
STEPS: Final = (SCHEDULING, PLACING, *ACTING)
#: Status of a volume after one that has ended without success.
FAILED: Final[Mapping[str, str]] = types.MappingProxyType(
    {
        CREATING: ERROR,
        EXTENDING: ERROR_EXTENDING,
        MIGRATING: AVAILABLE,
        RETYPING: AVAILABLE,
        MANAGING: ERROR_MANAGING,
        UNMANAGING: ERROR_MANAGING,
        DELETING: ERROR_DELETING,
    }
)
#: Statuses of volumes that are not deleted, in the order of a life.
LISTED: Final = (
    *(CREATING, MANAGING, AVAILABLE, RESERVED, ATTACHING, IN_USE, DETACHING),
    *(EXTENDING, MIGRATING, RETYPING, UNMANAGING, DELETING),
    *(ERROR, ERROR_MANAGING, ERROR_EXTENDING, ERROR_DELETING),
)
#: Statuses of volumes whose data fleet has not made, and does not remove.
FOUND: Final = (MANAGING, UNMANAGING, ERROR_MANAGING)
#: Status of the attachment of a volume that is in use.
ATTACHED: Final = "attached"
#: Statuses in which the host of a guest must act.
WITH_A_HOST: Final = (ATTACHING, DETACHING)
#: Statuses of volumes that have an attachment.
WITH_A_GUEST: Final = (RESERVED, *WITH_A_HOST, IN_USE)
