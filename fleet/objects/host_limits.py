# SPDX-License-Identifier: Apache-2.0
"""Upper bounds of a host's usage, set by the scheduler's filters that let the host through.

The answer of a scheduler and the order for an agent have them.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated

import pydantic

from fleet.json_codec import JSONObject
from fleet.objects import fields, numa

_Number = Annotated[float, pydantic.Field(allow_inf_nan=False)]


def _numa_limits(value: object) -> object:
    return value if isinstance(value, numa.Limits) else numa.Limits.from_wire(value)


@dataclasses.dataclass(frozen=True)
class HostLimits:
    """Upper bounds of used resources, reserved ones included: memory in MB, disk in GB. None is no bound (nova's rule)."""

    memory_mb: _Number | None = None
    disk_gb: _Number | None = None
    vcpu: _Number | None = None
    numa_topology: Annotated[numa.Limits | None, pydantic.BeforeValidator(_numa_limits)] = None

    @classmethod
    def from_wire(cls, data: object, field: str = "limits") -> HostLimits:
        """:raises errors.InvalidInput: naming the field"""
        return fields.parse(cls, data or {}, field)

    def to_wire(self) -> JSONObject:
        """Return the bounds that exist, without those of cells, which only the host tests."""
        said = {"memory_mb": self.memory_mb, "disk_gb": self.disk_gb, "vcpu": self.vcpu}
        return {name: most for name, most in said.items() if most is not None}

    @property
    def vcpus(self) -> int | None:
        """The bound in whole virtual CPUs, rounded down."""
        return None if self.vcpu is None else int(self.vcpu)
