# SPDX-License-Identifier: Apache-2.0
"""The properties of an image that placement reads. A build request and the row of an instance have them."""

from __future__ import annotations

import dataclasses

from fleet.json_codec import JSONObject
from fleet.objects import fields


@dataclasses.dataclass(frozen=True)
class Image:
    """Image identity, its minimum requirements (``min_ram`` in MB, ``min_disk`` in GB), its ``size`` in
    bytes (0: not known) and its properties."""

    id: fields.Text = ""
    name: fields.Text = ""
    status: fields.Text = "active"
    min_ram: fields.Natural = 0
    min_disk: fields.Natural = 0
    size: fields.Bytes = 0
    properties: fields.Scalars = dataclasses.field(default_factory=dict)

    @classmethod
    def from_wire(cls, data: object, field: str = "image") -> Image:
        return fields.parse(cls, data, field)

    def to_wire(self) -> JSONObject:
        # Not asdict: as of a flavor.
        return {**vars(self), "properties": dict(self.properties)}
