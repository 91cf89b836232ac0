# SPDX-License-Identifier: Apache-2.0
"""The life of a host in a maintenance. The hosts of a wave begin together; the next wave begins when all of them have ended.

Called by modules of :mod:`conductor_stub.maintenance`.

::

    waiting ──▶ draining ── no guest runs there ──▶ working ── the hook succeeds ──▶ returning ── up, wanted release ──▶ done
                   ▲                                 │   ▲
                   │ operator: resume       the hook │   │ operator: resume
                   └─────────────────────── fails ───┴─▶ failed

A guest that arrives before the hook runs, or runs again, brings the host back from working to draining.

The agent of a host that returns must also report its inventory without an alarm. One that does not come back in time has
failed, like a host that dies while it is drained; ``resume`` lets both go on where they were. A host that is down when its
turn comes is skipped, unless it comes back in time.

Without a hook a host is working until its agent has been started anew. An operator may skip a host
(``skipped``). A maintenance is ``running`` until all its hosts have ended (``ended``), or an operator ends it
(``cancelled``).
"""

from __future__ import annotations

from typing import Final

WAITING: Final = "waiting"
DRAINING: Final = "draining"
WORKING: Final = "working"
RETURNING: Final = "returning"
FAILED: Final = "failed"
DONE: Final = "done"
SKIPPED: Final = "skipped"
#: Of hosts that have not ended.
OPEN = (WAITING, DRAINING, WORKING, RETURNING, FAILED)
#: Of hosts that take no builds because of the maintenance.
TAKEN = (DRAINING, WORKING, RETURNING, FAILED)

#: Begins the reason for which a host takes no builds. Its agent's reasons come after AUTO.
REASON: Final = "maintenance "

RUNNING: Final = "running"
ENDED: Final = "ended"
CANCELLED: Final = "cancelled"
