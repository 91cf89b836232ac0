# SPDX-License-Identifier: Apache-2.0
"""The claim of one instance on one node, from the ledger.

A request has one where its instance already is on a host.
"""

from __future__ import annotations

import dataclasses

from fleet.json_codec import JSONObject
from fleet.objects import fields
from fleet.objects.claimed import Claimed


@dataclasses.dataclass(frozen=True)
class Holding:
    """``node`` and ``claimed`` are None if no host has claimed the instance."""

    instance_uuid: fields.Uuid
    host: fields.Text | None = None
    node: fields.Text | None = None
    claimed: Claimed | None = None

    @classmethod
    def from_wire(cls, data: object, field: str = "holding") -> Holding:
        """:raises errors.InvalidInput: naming the field"""
        holding = fields.parse(cls, data, field)
        if holding.claimed is not None:
            holding.claimed.require_hardware(f"{field}.claimed")
        return holding

    def to_wire(self) -> JSONObject:
        return dataclasses.asdict(self)
