# SPDX-License-Identifier: Apache-2.0
"""An attachment: a volume that a guest has, or is to get or lose. ``fleet.volume_states`` draws its life.

Conductors send it to the agent of the host, and moves take it along.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterable
from typing import Annotated, Literal

import pydantic

from fleet.json_codec import JSONObject
from fleet.objects import fields

#: Disks of a guest that a volume may be. The first ones are its own.
DEVICES = tuple(f"vd{letter}" for letter in "bcdefghijklmnopqrstuvwxy")
Device = Annotated[str, pydantic.Strict(), fields.Matching(r"(/dev/)?vd[b-y]", "/dev/vdb to /dev/vdy")]
#: Kind of volumes that are nowhere: every host has them.
FAKE = "fake"


@dataclasses.dataclass(frozen=True)
class VolumeConnection:
    """The place of a volume's data: a file, a block device, or none (``fake``).

    :param format: of the data: raw or qcow2. It is never found out from the data, which a guest writes
    """

    kind: Literal["file", "block", "fake"]
    path: fields.LongText
    format: Annotated[str, pydantic.StringConstraints(pattern="^(raw|qcow2)$")] = "raw"

    @classmethod
    def from_wire(cls, data: object, field: str = "connection") -> VolumeConnection:
        """:raises errors.InvalidInput: naming the field"""
        return fields.parse(cls, data, field)

    def to_wire(self) -> JSONObject:
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Attachment:
    """:param attempt: counts what was begun with it
    :param volume_host: the pool, ``machine@backend#pool``
    """

    uuid: fields.Uuid
    volume_uuid: fields.Uuid
    instance_uuid: fields.Uuid
    device: fields.Name
    status: fields.Name
    attempt: fields.Natural
    volume_host: fields.Text
    connection: VolumeConnection
    request_id: fields.Text | None = None

    @property
    def machine(self) -> str:
        """The machine that has the data; empty if they are nowhere."""
        return "" if self.connection.kind == FAKE else self.volume_host.partition("@")[0]

    @classmethod
    def from_wire(cls, data: object, field: str = "attachment") -> Attachment:
        """:raises errors.InvalidInput: naming the field"""
        return fields.parse(cls, data, field)

    def to_wire(self) -> JSONObject:
        return dataclasses.asdict(self)


def reaches(host: str, volume_hosts: Iterable[str], machine: str) -> bool:
    """Return True if ``host`` has the data that are on ``machine``.

    :param volume_hosts: other machines whose files and devices it has; shell patterns
    """
    return machine in ("", host) or any(fnmatch.fnmatchcase(machine, pattern) for pattern in volume_hosts)
