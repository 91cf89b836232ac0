# SPDX-License-Identifier: Apache-2.0
"""The rows that count what is under way, by step. Intakes add to them, and the ends of builds and volumes subtract."""

from __future__ import annotations

import datetime
from typing import Protocol


class UnderWay(Protocol):
    """How many builds, or volumes, are in a step, and since when the oldest of them is."""

    number: int
    oldest: datetime.datetime | None
