# SPDX-License-Identifier: Apache-2.0
"""A host aggregate: a named set of hosts with metadata. The key ``availability_zone`` makes it a zone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import cast

from fleet import errors
from fleet.objects import fields
from fleet.objects.answers.hosts import AggregateView

#: Metadata key that makes an aggregate an availability zone, or several with commas between them.
ZONE = "availability_zone"


def zones_of(metadata: Mapping[str, str]) -> frozenset[str]:
    """Return the zones that the metadata of an aggregate name. A value may name several, with commas between them."""
    return frozenset(part.strip() for part in metadata.get(ZONE, "").split(",")) - {""}


def require_zones(metadata: Mapping[str, str | None]) -> None:
    """Check that a request can name each zone of the metadata: a request's zone ends at a colon.

    :raises errors.InvalidInput:
    """
    value = metadata.get(ZONE)
    if value is not None and (":" in value or not zones_of({ZONE: value})):
        reason = f"must be a name of a zone without a colon, or several with commas between them, got {value[:100]!r}"
        raise errors.InvalidInput(field=f"metadata.{ZONE}", reason=reason)


@dataclasses.dataclass(frozen=True)
class Aggregate:
    """``hosts`` are service host names; metadata maps string to string."""

    id: int
    name: fields.Name
    hosts: list[fields.Name] = dataclasses.field(default_factory=list)
    metadata: fields.Texts = dataclasses.field(default_factory=dict)
    uuid: str | None = None
    #: ISO 8601, UTC. None if the sender is an earlier release; ``updated_at`` also if nothing has changed.
    created_at: str | None = None
    updated_at: str | None = None

    @classmethod
    def from_wire(cls, data: object, field: str = "aggregate") -> Aggregate:
        return fields.parse(cls, data, field)

    def to_wire(self) -> AggregateView:
        return {
            "id": self.id,
            "name": self.name,
            "hosts": list(self.hosts),
            "metadata": dict(self.metadata),
            # Aggregates without one are a scheduler's own, and not sent.
            "uuid": cast("str", self.uuid),
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        }
