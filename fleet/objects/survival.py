# SPDX-License-Identifier: Apache-2.0
"""The input and the result of ``fleet drill``: the hosts that are lost together, and the new places of their guests.

:mod:`scheduler.compute.planning.survival` makes the result, and :mod:`fleet_cli.survival.drill` prints it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

#: Entry points (conf, state, losses, requests of instances, tick, limit) -> report; ``fleet`` imports no service.
ENTRY_POINTS = "fleet.objects.survival"
#: Names of the entry points: the report, and what still fits after each loss (with the request asked for before tick).
REPORT, REMAINING = "scheduler", "remaining"


@dataclasses.dataclass(frozen=True)
class Loss:
    """Hosts that are lost together. :param name: as users name it: a host, or ``rack=r7``"""

    name: str
    hosts: Sequence[str]


class Proof(Protocol):
    """The places of the guests of one loss, or what they lack; see ``scheduler.planning.survival.room``."""

    lost: Sequence[str]
    guests: int
    verdict: Any
    plan: Mapping[str, str]
    lacking: Sequence[str]
    why: str


@dataclasses.dataclass(frozen=True)
class Report:
    """A proof for each loss. :param proved_s: how long all of them took, in seconds"""

    losses: Sequence[Loss]
    proofs: Sequence[Any]
    proved_s: float


@dataclasses.dataclass(frozen=True)
class Remaining:
    """The number of instances that fit after a loss.

    :param verdict: whether the guests of the lost hosts have a place; if not, no instance fits
    :param fits: the number of instances; None if there is no limit
    """

    lost: str
    verdict: str
    fits: int | None
    why: str
