# SPDX-License-Identifier: Apache-2.0
"""The weighers for volumes: each rates the pools that passed, one concern a file.

Read ``base`` for the two forms, then ``allocated_capacity`` for an example. A weigher of your own needs no change here:
subclass :class:`BaseHostWeigher`, and name its dotted path in ``[volume] scheduler_default_weighers``.
"""

from scheduler.volumes.weights.allocated_capacity import AllocatedCapacityWeigher
from scheduler.volumes.weights.base import BaseHostWeigher, ColumnWeigher, WeighedHost
from scheduler.volumes.weights.capacity import CapacityWeigher
from scheduler.volumes.weights.chance import ChanceWeigher
from scheduler.volumes.weights.goodness import GoodnessWeigher
from scheduler.volumes.weights.volume_number import VolumeNumberWeigher

__all__ = [
    "AllocatedCapacityWeigher",
    "BaseHostWeigher",
    "CLASSES",
    "CapacityWeigher",
    "ChanceWeigher",
    "ColumnWeigher",
    "GoodnessWeigher",
    "VolumeNumberWeigher",
    "WeighedHost",
]

CLASSES: tuple[type[ColumnWeigher], ...] = (
    AllocatedCapacityWeigher,
    CapacityWeigher,
    ChanceWeigher,
    GoodnessWeigher,
    VolumeNumberWeigher,
)
