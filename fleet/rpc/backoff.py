# SPDX-License-Identifier: Apache-2.0
"""Exponential back-off with jitter: daemons that were refused at the same time do not retry at the same time.

Used by the threads that connect to the broker, and by :mod:`fleet.service.worker`.
"""

from __future__ import annotations

import random


class Backoff:
    """Pauses that double from ``first_s`` to ``longest_s``. Each is shortened by up to a half, at random."""

    def __init__(self, first_s: float = 1.0, longest_s: float = 30.0, chance: random.Random | None = None) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._chance = chance or random.Random()
        self._next_s = first_s

    def pause_s(self) -> float:
        """Return the next pause in seconds."""
        longest, self._next_s = self._next_s, min(2 * self._next_s, self._longest_s)
        return self._chance.uniform(longest / 2, longest)

    def reset(self) -> None:
        """Start again from the first pause, after a success."""
        self._next_s = self._first_s
