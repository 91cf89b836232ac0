# SPDX-License-Identifier: Apache-2.0
"""The input and the result of ``fleet maintenance plan``: hosts that are emptied together, wave after wave.

Called by :mod:`fleet_cli.planning.maintenance` and :mod:`scheduler.compute.planning.waves`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from fleet.objects.rebalance import Move
from fleet.objects.tolerance import Tolerance

#: Entry point (conf, state, goal, requests of instances, tick) -> plan; ``fleet`` imports no service.
ENTRY_POINTS = "fleet.objects.waves"


@dataclasses.dataclass(frozen=True)
class WavesGoal:
    """:param hosts: to be emptied, each once; ``at_a_time``: the most hosts of a wave

    :param promised: what the fleet is to survive, also while a wave is empty
    """

    hosts: Sequence[str]
    at_a_time: int
    promised: Sequence[Tolerance] = ()


@dataclasses.dataclass(frozen=True)
class Wave:
    """Hosts that are empty together, and the moves that empty them."""

    hosts: Sequence[str]
    moves: Sequence[Move]


@dataclasses.dataclass(frozen=True)
class WavesPlan:
    """:param stuck: hosts that cannot be emptied, with the reason
    :param guests: that are on the hosts of the waves now
    :param bound: no plan has fewer waves: so few hosts can be empty at a time, by ``at_a_time`` and by memory and vcpus
    """

    waves: Sequence[Wave]
    stuck: Mapping[str, str]
    guests: int
    bound: int
