# SPDX-License-Identifier: Apache-2.0
"""The task of an annealing, and its result. Called by the modules beside it and their callers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy

from scheduler.planning.search.problem import Problem


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The course of the temperature in an annealing, and the kinds of its steps.

    :param hot, cold: temperatures at the beginning and at the end of a cycle, as shares of a typical change of the cost
    :param cycles: number of cycles; each begins less hot than the one before
    :param swaps, chains: shares of the steps that are swaps, and chains; the others are moves
    :param tries: number of items that a step draws; it uses the one at the costliest place
    """

    hot: float = 1.0
    cold: float = 1e-6
    cycles: int = 1
    swaps: float = 0.25
    chains: float = 0.25
    tries: int = 2


@dataclasses.dataclass(frozen=True)
class Task:
    """Parameters as those of :func:`scheduler.planning.search.annealing.anneal`, with its defaults filled in."""

    problem: Problem
    until: float
    seed: int
    schedule: Schedule
    most_moves: int
    clock: Callable[[], float]
    start: numpy.ndarray | None
    enough: float
    most_steps: int | None


@dataclasses.dataclass(frozen=True)
class Found:
    """The best assignment, its cost, and after how many steps the search has stopped."""

    at: numpy.ndarray
    cost: float
    steps: int
