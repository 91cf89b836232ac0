# SPDX-License-Identifier: Apache-2.0
"""A volume type: the properties that its volumes request from their pool. :mod:`fleet.objects.volume` contains it."""

from __future__ import annotations

import dataclasses

from fleet import pool_capacity
from fleet.objects import fields
from fleet.objects.answers.volumes import VolumeTypeView


@dataclasses.dataclass(frozen=True)
class VolumeType:
    """``extra_specs`` are matched with the capabilities of pools. One that is not public is for some projects only."""

    name: fields.Name
    extra_specs: fields.Texts = dataclasses.field(default_factory=dict)
    description: fields.Text = ""
    id: fields.Natural | None = None
    is_public: fields.Flag = True

    @classmethod
    def from_wire(cls, data: object, field: str = "volume_type") -> VolumeType:
        """:raises errors.InvalidInput: naming the field"""
        return fields.parse(cls, data, field)

    def to_wire(self) -> VolumeTypeView:
        return {
            "name": self.name,
            "extra_specs": self.extra_specs,
            "description": self.description,
            "id": self.id,
            "is_public": self.is_public,
        }

    @property
    def thin(self) -> bool:
        """Return True if volumes of this type may be thin."""
        return pool_capacity.asks_for_thin(self.extra_specs)
