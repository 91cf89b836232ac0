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
                 │      └──▶ extending/working   (failed: the volume keeps its size, and ``failure`` says why)
                 ▼
               deleting/working ──▶ deleted

``working``: the agent of the volume's backend must act. Each order to it only says "read the volume"; the status says what
to do. A volume keeps its claim until its backend has removed it.

A snapshot is a row of the same table. Its space is claimed when it is asked for, so its life begins with
``creating/working``; it is made on the pool of its volume or nowhere.
"""

from __future__ import annotations

from typing import Final

CREATING: Final = "creating"
AVAILABLE: Final = "available"
EXTENDING: Final = "extending"
DELETING: Final = "deleting"
DELETED: Final = "deleted"
ERROR: Final = "error"

SCHEDULING: Final = "scheduling"
PLACING: Final = "placing"
WORKING: Final = "working"

#: Statuses of volumes that are not deleted, in the order of a life.
LISTED: Final = (CREATING, AVAILABLE, EXTENDING, DELETING, ERROR)
