# SPDX-License-Identifier: Apache-2.0
"""Runs the command that switches a host off.

:mod:`conductor_stub.recovery.fencing` runs it before guests are moved.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence

from conductor_stub.steps import hook


@dataclasses.dataclass(frozen=True)
class Order:
    """A fence to be run.

    :param attempt: its number, from 1 on
    :param begin_by: from then on it must not begin: its lease could end before it
    """

    command: Sequence[str]
    host: str
    recovery: str
    attempt: int
    timeout_s: float
    begin_by: datetime.datetime

    def environment(self) -> Mapping[str, str]:
        return {
            "FLEET_HOST": self.host,
            "FLEET_RECOVERY": self.recovery,
            "FLEET_FENCE_ATTEMPT": str(self.attempt),
            "FLEET_FENCE_TIMEOUT": f"{self.timeout_s:g}",
        }


@dataclasses.dataclass(frozen=True)
class Outcome:
    """:param is_off: the host is certainly off"""

    is_off: bool
    message: str


Fence = Callable[[Order], Outcome]


def run(order: Order) -> Outcome:
    """Run the command to its end, or kill it after ``timeout_s``. Nothing of it outlives its time, or this conductor: the
    host may be in use again by then.
    """
    command = [*order.command, order.host]
    return Outcome(*hook.run_guarded(command, order.environment(), order.timeout_s, "the fence"))
