# SPDX-License-Identifier: Apache-2.0
"""Plays a seed in a worker process."""

from __future__ import annotations

import functools
import gc
import logging

from tests.simulation.database import SimulatedDatabase
from tests.simulation.recovering import Recovering
from tests.simulation.scenario import Scenario, Verdict


def play(seed: int) -> Verdict:
    return Scenario(seed, _database()).play()


def play_recovering(seed: int) -> Verdict:
    return Recovering(seed, _database()).play()


@functools.cache
def _database() -> SimulatedDatabase:
    """One for all seeds of a process."""
    logging.disable(logging.CRITICAL)
    # What a seed leaves behind is little, and what all seeds share is much to look through again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)
    return SimulatedDatabase.open()
