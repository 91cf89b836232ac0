# SPDX-License-Identifier: Apache-2.0
"""The scheduler's answer for one instance: the chosen host, its limits, and the alternates.

Called by :mod:`fleet.objects`.
"""

from __future__ import annotations

import dataclasses

from fleet.json_codec import JSONObject
from fleet.objects import fields


@dataclasses.dataclass(frozen=True)
class Place:
    """A host, a node on it, and the limits (``memory_mb``, ``disk_gb``, ``vcpu``) that the claim there must keep."""

    host: fields.Name
    nodename: fields.Name | None
    limits: JSONObject | None = dataclasses.field(default_factory=dict)

    def to_wire(self) -> JSONObject:
        return {"host": self.host, "nodename": self.nodename, "limits": self.limits}


@dataclasses.dataclass(frozen=True)
class Selection:
    """One element of ``select_destinations``' answer, in the order of the instances."""

    host: fields.Name
    nodename: fields.Name | None
    limits: JSONObject | None = dataclasses.field(default_factory=dict)
    alternates: list[Place] = dataclasses.field(default_factory=list)
    decision: JSONObject = dataclasses.field(default_factory=dict)

    @classmethod
    def from_wire(cls, data: object, field: str = "selection") -> Selection:
        return fields.parse(cls, data, field)

    def to_wire(self) -> JSONObject:
        return {
            "host": self.host,
            "nodename": self.nodename,
            "limits": self.limits,
            "alternates": [place.to_wire() for place in self.alternates],
            "decision": self.decision,
        }
