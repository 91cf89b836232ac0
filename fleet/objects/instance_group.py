# SPDX-License-Identifier: Apache-2.0
"""A server group: instances that should share a host, or should not. Requests to schedulers contain it."""

from __future__ import annotations

import dataclasses
from typing import Literal

from fleet.json_codec import JSONObject
from fleet.objects import fields

AFFINITY = "affinity"
ANTI_AFFINITY = "anti-affinity"
#: Of a group that has rules over labels only (``fleet.objects.group_rule``).
NONE = "none"
Policy = Literal["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity", "none"]


@dataclasses.dataclass(frozen=True)
class InstanceGroup:
    """``members`` are instance uuids; ``max_server_per_host`` belongs to anti-affinity only."""

    uuid: fields.Uuid
    name: fields.Name
    policy: Policy
    max_server_per_host: fields.Positive = 1
    members: list[fields.Uuid] = dataclasses.field(default_factory=list)
    project_id: fields.Text | None = None

    @classmethod
    def from_wire(cls, data: object, field: str = "group") -> InstanceGroup:
        return fields.parse(cls, data, field)

    def to_wire(self) -> JSONObject:
        return dataclasses.asdict(self)
