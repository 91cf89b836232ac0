# SPDX-License-Identifier: Apache-2.0
"""A snapshot of a move: its migration record and its instance's row, as services exchange them.

Called by :mod:`fleet.objects`.
"""

from __future__ import annotations

import dataclasses

from fleet import move_states
from fleet.json_codec import JSONObject
from fleet.objects import fields
from fleet.objects.attachment import Attachment
from fleet.objects.claimed import Claimed
from fleet.objects.flavor import Flavor
from fleet.objects.holding import Holding
from fleet.objects.instance import Instance


@dataclasses.dataclass(frozen=True)
class Sizing:
    """A flavor, and what follows from it and the image."""

    flavor: Flavor
    numa_topology: JSONObject | None = None
    pci_requests: list[JSONObject] | None = None

    @classmethod
    def from_wire(cls, data: object, field: str = "sizing") -> Sizing:
        return fields.parse(cls, data, field)

    def of(self, instance: Instance) -> Instance:
        """Return ``instance`` with this size."""
        return dataclasses.replace(instance, **{name: getattr(self, name) for name in self.__dataclass_fields__})


@dataclasses.dataclass(frozen=True)
class Migration:
    """``instance`` is the present row; ``held`` is what the record claims besides it (see ``fleet.move_states``).

    ``step_within_s``: seconds that the host may take for the present step. ``volumes`` are those of the instance, which
    follow it.
    """

    uuid: fields.Uuid
    instance: Instance
    migration_type: fields.Name
    status: fields.Name
    attempt: fields.Natural
    source_compute: fields.Name
    source_node: fields.Name
    old: Sizing
    new: Sizing
    dest_compute: fields.Name | None = None
    dest_node: fields.Name | None = None
    limits: JSONObject | None = None
    held: Holding | None = None
    failure: JSONObject | None = None
    step_within_s: fields.Finite | None = None
    volumes: list[Attachment] = dataclasses.field(default_factory=list)

    @classmethod
    def from_wire(cls, data: object, field: str = "migration") -> Migration:
        """:raises errors.InvalidInput: naming the field"""
        return fields.parse(cls, data, field)

    def to_wire(self) -> JSONObject:
        return dataclasses.asdict(self)

    @property
    def actor(self) -> str | None:
        """The host that must act now; None if it is not a host's turn."""
        return move_states.actor(self.migration_type, self.status, self.source_compute, self.dest_compute)

    @property
    def is_aborted(self) -> bool:
        """True if the source must abort the move."""
        return move_states.is_aborted(self.migration_type, self.status, self.failure)

    @property
    def on_one_host(self) -> bool:
        return self.source_compute == self.dest_compute

    @property
    def at_source(self) -> Instance:
        """The instance as it runs on the source."""
        there = dataclasses.replace(self.instance, host=self.source_compute, node=self.source_node)
        return self.old.of(there)

    @property
    def at_destination(self) -> Instance:
        """The instance as it is to run on the destination, with the cells, CPUs and devices that were claimed there."""
        there = dataclasses.replace(self.instance, host=self.dest_compute, node=self.dest_node)
        claim = self.claim_on(self.dest_compute or "", self.dest_node or "")
        # Later the instance's row has them, and the record holds what the source had.
        if claim is not None and self.status not in (move_states.FINISHED, move_states.CONFIRMING):
            there = dataclasses.replace(
                there, claimed_numa_topology=claim.numa_topology, claimed_pci_devices=claim.pci_devices
            )
        return self.new.of(there)

    def claim_on(self, host: str, node: str) -> Claimed | None:
        """Return the claim that the record holds on this node."""
        held = self.held
        return held.claimed if held is not None and (held.host, held.node) == (host, node) else None
