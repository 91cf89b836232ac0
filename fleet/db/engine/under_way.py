# SPDX-License-Identifier: Apache-2.0
"""The rows that count what is under way, by step. Intakes add to them, and the ends of builds and volumes subtract.

Called by :mod:`fleet.db.instances.builds` and :mod:`fleet.db.volumes.volumes`.
"""

from __future__ import annotations

import datetime
from typing import Protocol


class UnderWay(Protocol):
    """The number of builds, or of volumes, in one step, and the time at which the oldest of them entered it."""

    number: int
    oldest: datetime.datetime | None
