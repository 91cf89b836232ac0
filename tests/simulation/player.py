# SPDX-License-Identifier: Apache-2.0
"""Plays a seed in a worker process."""

from __future__ import annotations

import functools
import logging

from tests.simulation.database import SimulatedDatabase
from tests.simulation.scenario import Scenario, Verdict


def play(seed: int) -> Verdict:
    return Scenario(seed, _database()).play()


@functools.cache
def _database() -> SimulatedDatabase:
    """One for all seeds of a process."""
    logging.disable(logging.CRITICAL)
    return SimulatedDatabase.open()
