# SPDX-License-Identifier: Apache-2.0
"""Draw one host by chance: a host's chance is its part of the sum of all scores.

Called by :mod:`scheduler.engine.decide`.
"""

from __future__ import annotations

import random

import numpy


def draw(scores: numpy.ndarray, count: int, chance: random.Random) -> list[int]:
    """Return up to ``count`` rows: the one that was drawn, then those that follow it in the order of the table.

    Behind the last row comes the first. If no row is drawn, because the scores add up to 0 or less, the first one is.
    Source: cinder's ``StochasticHostWeightHandler``.

    :param scores: minus infinity for rows that must not be drawn
    """
    alive = numpy.flatnonzero(~numpy.isneginf(scores))
    sums = numpy.cumsum(scores[alive])
    above = numpy.flatnonzero(sums > chance.random() * sums[-1])
    drawn = int(above[0]) if len(above) else 0
    found: list[int] = numpy.roll(alive, -drawn)[:count].tolist()
    return found
