# SPDX-License-Identifier: Apache-2.0
"""The input of ``fleet whatif``: a change of the fleet, and the requests to place on it.

:mod:`fleet_cli.planning.whatif` makes it, and the ``whatif`` modules of the scheduler answer it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from fleet.json_codec import JSONMapping

#: Resources whose allocation ratio can be changed: of hosts, and of pools (their over-subscription).
RATIOS = ("cpu", "ram", "disk")
VOLUME_RATIO = "volume"
#: Entry points (conf, state, change, demands, tick) -> figures; ``fleet`` imports no service.
ENTRY_POINTS = "fleet.objects.whatif"
#: Names of the entry points for instances and for volumes.
OF_INSTANCES, OF_VOLUMES = "scheduler", "volumes"


@dataclasses.dataclass(frozen=True)
class Change:
    """A hypothetical change of the fleet.

    ``without_hosts`` are removed with their instances. ``ratios`` (of :data:`RATIOS`) apply to every host; filters
    that read ratios of aggregates still do. ``more_hosts`` empty hosts are added, each a copy of ``like``. For volumes,
    hosts are storage backends with all their pools, and the only ratio is :data:`VOLUME_RATIO`.
    """

    without_hosts: Sequence[str] = ()
    ratios: Mapping[str, float] = dataclasses.field(default_factory=dict)
    without_filters: Sequence[str] = ()
    more_hosts: int = 0
    like: str = ""


@dataclasses.dataclass(frozen=True)
class Demand:
    """One request, in the form of ``select_destinations`` or ``select_backend``, and the lifetimes of its instances.

    A lifetime of None has no end. A request for volumes asks for one.
    ``name`` is shown to users.
    """

    request_spec: JSONMapping
    filter_properties: JSONMapping
    lifetimes_s: Sequence[float | None]
    at_s: float = 0.0
    name: str = ""

    @classmethod
    def of_instance(cls, asked: JSONMapping) -> Demand:
        """:param asked: the request of an instance, as the operator method ``requests_of`` returns it"""
        return cls(asked["request_spec"], asked["filter_properties"], [None], name=asked["uuid"])
