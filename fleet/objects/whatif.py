# SPDX-License-Identifier: Apache-2.0
"""What ``fleet whatif`` asks the scheduler's code: a fleet that is changed in thought, and requests that it is to take."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

#: Resources whose allocation ratio can be changed in thought.
RATIOS = ("cpu", "ram", "disk")
#: Entry points (conf, state, change, demands, tick) -> figures; ``fleet`` imports no service.
ENTRY_POINTS = "fleet.objects.whatif"


@dataclasses.dataclass(frozen=True)
class Change:
    """What would be otherwise.

    ``without_hosts`` are gone, with what is on them. ``ratios`` (of :data:`RATIOS`) hold for every host; where aggregates
    have their own, the filters that heed these still do. ``more_hosts`` are empty ones, each ``like`` a host that there is.
    """

    without_hosts: Sequence[str] = ()
    ratios: Mapping[str, float] = dataclasses.field(default_factory=dict)
    without_filters: Sequence[str] = ()
    more_hosts: int = 0
    like: str = ""


@dataclasses.dataclass(frozen=True)
class Demand:
    """One request, in the form of ``select_destinations``, and when its instances end: None is never.

    ``name`` is what a person calls it.
    """

    request_spec: Mapping[str, Any]
    filter_properties: Mapping[str, Any]
    lifetimes_s: Sequence[float | None]
    at_s: float = 0.0
    name: str = ""
