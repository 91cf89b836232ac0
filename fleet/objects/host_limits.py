# SPDX-License-Identifier: Apache-2.0
"""Up to what a host's resources may be used: what the scheduler's filters allowed when they let the host through."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import pydantic

from fleet.objects import fields, numa

_Number = Annotated[float, pydantic.Field(allow_inf_nan=False)]


def _numa_limits(value: object) -> object:
    return value if isinstance(value, numa.Limits) else numa.Limits.from_wire(value)


@dataclasses.dataclass(frozen=True)
class HostLimits:
    """Ceilings of what is used, with what is reserved: memory in MB, disk in GB. None is no ceiling (nova's rule)."""

    memory_mb: _Number | None = None
    disk_gb: _Number | None = None
    vcpu: _Number | None = None
    numa_topology: Annotated[numa.Limits | None, pydantic.BeforeValidator(_numa_limits)] = None

    @classmethod
    def from_wire(cls, data: object, field: str = "limits") -> HostLimits:
        """:raises errors.InvalidInput: naming the field"""
        return fields.parse(cls, data or {}, field)

    def to_wire(self) -> dict[str, Any]:
        """Without what is not limited; of the cells nothing, which only the host looks at."""
        said = {"memory_mb": self.memory_mb, "disk_gb": self.disk_gb, "vcpu": self.vcpu}
        return {name: most for name, most in said.items() if most is not None}

    @property
    def vcpus(self) -> int | None:
        """Half a virtual CPU cannot be sold: the ceiling is cut to whole ones."""
        return None if self.vcpu is None else int(self.vcpu)
