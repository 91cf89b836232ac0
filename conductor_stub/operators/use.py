# SPDX-License-Identifier: Apache-2.0
"""The use of the fleet over time, namespace ``operator``. The page shows it, and calls it through ``fleet-api``."""

from __future__ import annotations

from typing import Annotated

import pydantic

from fleet import capacity
from fleet.clock import Clock, as_text, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database
from fleet.db.hosts import hosts
from fleet.db.upkeep import use_history
from fleet.objects.answers.hosts import UseView
from fleet.rpc.endpoint import endpoint, served

#: Resource → what a host has of it, what is reserved there, and the ratio up to which it is given away.
_LIMITS = {
    "vcpus": ("vcpus", "reserved_vcpus", "cpu_allocation_ratio"),
    "memory_mb": ("memory_mb", "reserved_memory_mb", "ram_allocation_ratio"),
    "disk_gb": ("local_gb", "reserved_disk_gb", "disk_allocation_ratio"),
}
Hours = Annotated[int, pydantic.Strict(), pydantic.Field(ge=1, le=24 * 31)]
Points = Annotated[int, pydantic.Strict(), pydantic.Field(ge=2, le=1000)]


class UseManager:
    target = served("conductor", "operator")

    def __init__(self, database: Database, clock: Clock = utcnow) -> None:
        self._database = database
        self._clock = clock

    @endpoint
    def use_over_time(self, context: RequestContext, hours: Hours = 24, points: Points = 97) -> UseView:
        """Return ``times``, at each ``instances``, ``vcpus``, ``memory_mb`` and ``disk_gb`` of the instances that ran,
        ``limits``: what the hosts of today may give away of each resource, and ``began``: since when there is a fleet.
        See ``fleet.db.upkeep.use_history``.
        """

        def read(connection: Connection) -> UseView:
            found = use_history.read(connection, self._clock(), hours, points)
            sums = {name: [each[place] for each in found.sums] for place, name in enumerate(use_history.SUMS)}
            return {
                "times": [as_text(each) for each in found.times],
                "instances": sums["instances"],
                "vcpus": sums["vcpus"],
                "memory_mb": sums["memory_mb"],
                "disk_gb": sums["disk_gb"],
                "limits": _limits(connection),
                "began": as_text(use_history.began(connection)),
            }

        return self._database.read(read)


def _limits(connection: Connection) -> dict[str, float]:
    nodes = hosts.list_all(connection, columns=[each for columns in _LIMITS.values() for each in columns])
    return {
        name: sum(_for_instances(*(getattr(node, column) for column in columns)) for node in nodes)
        for name, columns in _LIMITS.items()
    }


def _for_instances(total: int, reserved: int, ratio: float) -> float:
    return capacity.limit(total, reserved, ratio) - reserved
