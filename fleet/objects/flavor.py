# SPDX-License-Identifier: Apache-2.0
"""A flavor: the size of an instance. A build request and the row of each instance contain one."""

from __future__ import annotations

import dataclasses

from fleet import capacity, errors
from fleet.objects import fields
from fleet.objects.answers.catalog import FlavorView

#: Of one instance; no hypervisor has more. Sets of vcpus are made of this number.
MOST_VCPUS = 4096


@dataclasses.dataclass(frozen=True)
class Flavor:
    """Sizes of one instance: memory and swap in MB, root and ephemeral disk in GB."""

    vcpus: fields.Positive
    memory_mb: fields.Positive
    root_gb: fields.Natural = 0
    ephemeral_gb: fields.Natural = 0
    swap: fields.Natural = 0
    name: fields.Text = ""
    flavorid: fields.Text = ""
    id: fields.Natural | None = None
    extra_specs: fields.Texts = dataclasses.field(default_factory=dict)

    @classmethod
    def from_wire(cls, data: object, field: str = "flavor") -> Flavor:
        return fields.parse(cls, data, field)

    def require_bounds(self, field: str = "flavor") -> None:
        """Check the size of a new flavor. Flavors that are stored already are read with any size.

        :raises errors.InvalidInput: naming the field and the limit
        """
        if self.vcpus > MOST_VCPUS:
            reason = f"must be a whole number from 1 to {MOST_VCPUS}, got {self.vcpus}"
            raise errors.InvalidInput(field=f"{field}.vcpus", reason=reason)
        fields.require_small(self.extra_specs, f"{field}.extra_specs")

    def to_wire(self) -> FlavorView:
        # Not asdict, which is ten times slower: lists of instances have a flavor each.
        return {
            "vcpus": self.vcpus,
            "memory_mb": self.memory_mb,
            "root_gb": self.root_gb,
            "ephemeral_gb": self.ephemeral_gb,
            "swap": self.swap,
            "name": self.name,
            "flavorid": self.flavorid,
            "id": self.id,
            "extra_specs": dict(self.extra_specs),
        }

    @property
    def requested_disk_mb(self) -> int:
        return capacity.requested_disk_mb(self.root_gb, self.ephemeral_gb, self.swap)

    @property
    def claimed_disk_gb(self) -> int:
        return capacity.claimed_disk_gb(self.root_gb, self.ephemeral_gb)
