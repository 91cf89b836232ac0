# SPDX-License-Identifier: Apache-2.0
"""The life of a recovery: what conductors do by themselves about a host that is down.

Called by modules of :mod:`conductor_stub.recovery` and :mod:`fleet.db.operations`.

::

    fencing ── the fence succeeds ──▶ moving ── every guest is elsewhere ──▶ done
      │ ▲                               │
      │ └── operator: resume ── held ◀──┤ the host reports although it was fenced
      │                          ▲      │
      ├── fence failed too often ┘      │
      └────── the host reports ─────────┴── and nothing is under way ──▶ returned

A guest of a recovery::

    waiting ── its evacuation is accepted ──▶ moving ── it runs elsewhere ──▶ moved
       ▲  └── deleted, or moved by others ──▶ gone        │
       │  └── its host is back (and starts it) ▶ stayed  │
       └──────────── the evacuation failed ──────────────┘
"""

from __future__ import annotations

from typing import Final

FENCING: Final = "fencing"
HELD: Final = "held"
MOVING: Final = "moving"
DONE: Final = "done"
RETURNED: Final = "returned"
#: Of recoveries that have not ended.
OPEN = (FENCING, HELD, MOVING)
ENDED = (DONE, RETURNED)

WAITING: Final = "waiting"
MOVED: Final = "moved"
GONE: Final = "gone"
STAYED: Final = "stayed"
