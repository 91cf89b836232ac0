# SPDX-License-Identifier: Apache-2.0
"""Amounts times hours of what was asked for, and of what was placed of it.

The reports of replays and of ``fleet whatif`` count by it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Life(NamedTuple):
    """An instance or a volume. A ``life_s`` of None has no end."""

    at_s: float
    life_s: float | None
    amount: float
    placed: bool


def figures(unit: str, lives: Sequence[Life], end_s: float) -> dict[str, float]:
    """Return the hours that were requested, and those that were placed. What has no end counts until ``end_s``."""
    asked = placed = 0.0
    for each in lives:
        life_s = math.inf if each.life_s is None else each.life_s
        hours = each.amount * min(life_s, end_s - each.at_s) / 3600
        asked += hours
        placed += hours if each.placed else 0.0
    return {f"{unit}_hours_asked": round(asked, 1), f"{unit}_hours_placed": round(placed, 1)}
