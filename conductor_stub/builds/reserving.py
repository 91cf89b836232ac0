# SPDX-License-Identifier: Apache-2.0
"""The interface between builds and volumes, which ``attachments.reservations`` implements.

The intake of builds calls it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from fleet.context import RequestContext
from fleet.db.engine.database import Transaction
from fleet.db.tables.volumes import VolumeRow
from fleet.json_codec import JSONObject
from fleet.objects import BlockDevice, Flavor, VolumeConnection


@dataclasses.dataclass(frozen=True)
class Reserved:
    """A volume that a build reserves.

    :param seen: its row at the time of the call to its agent
    :param device: name of its disk in the guest
    :param where: the place of its data, as its agent has returned it
    """

    seen: VolumeRow
    device: str
    where: VolumeConnection

    def to_wire(self) -> JSONObject:
        """Return the reservation in the form of the stored request."""
        return dataclasses.asdict(BlockDevice(self.seen.uuid, self.device))


class Reserving(Protocol):
    """Reserves the volumes of an instance for its build."""

    def plan(self, context: RequestContext, wanted: Sequence[BlockDevice], flavor: Flavor) -> list[Reserved]:
        """Write nothing.

        :raises errors.NotFound: errors.Conflict: errors.InvalidInput: errors.VersionPinned: an agent may be too old
        :raises errors.ServiceDown: the agent of the volume's backend does not answer
        """

    def require(self, tx: Transaction, planned: Sequence[Reserved]) -> None:
        """Check locked volumes before anything is written. :raises errors.Conflict: not as it was planned"""

    def write(self, tx: Transaction, planned: Sequence[Reserved], instance: JSONObject) -> None:
        """Reserve the volumes, with the row of their instance."""
