# SPDX-License-Identifier: Apache-2.0
"""Parses the section [balance] of the configuration. :mod:`conductor_stub.parts` reads it once, at start."""

from __future__ import annotations

import dataclasses

from oslo_config import cfg

from conductor_stub.upkeep_conf import BALANCE

#: Looks after which a suggestion is not what would be decided now.
_OLD_LOOKS = 3


@dataclasses.dataclass(frozen=True)
class BalanceSettings:
    """The options of the same names describe them. Loads are in points: percent of a host."""

    interval_s: float = 60
    threshold: float = 12
    least_load: float = 40
    least_cpu_load: float = 70
    most_cpu_load: float = 75
    hold_time_s: float = 120
    margin: float = 3
    most_moves: int = 3
    most_gib: int = 128
    cooldown_s: float = 6 * 3600

    @property
    def old_s(self) -> float:
        """Seconds after which a look is no reason to begin a round any more."""
        return _OLD_LOOKS * self.interval_s

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> BalanceSettings:
        group = conf[BALANCE]
        return cls(
            interval_s=group.interval,
            threshold=group.threshold,
            least_load=group.least_load,
            least_cpu_load=group.least_cpu_load,
            most_cpu_load=group.most_cpu_load,
            hold_time_s=group.hold_time,
            margin=group.margin,
            most_moves=group.most_moves,
            most_gib=group.most_gib,
            cooldown_s=group.cooldown,
        )
