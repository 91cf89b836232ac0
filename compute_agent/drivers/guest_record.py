# SPDX-License-Identifier: Apache-2.0
"""A driver's record of a guest, in memory or in a file that survives the agent.

The drivers keep it beside their guests, and the agent compares it with the ledger.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import Self

from compute_agent.guest import state_file
from fleet import errors, states
from fleet.json_codec import JSONObject
from fleet.objects import Attachment, Instance


@dataclasses.dataclass(frozen=True)
class GuestRecord:
    """``attempt`` is the build that spawned the guest; the sizes are the flavor's, in MB and GB.

    ``volumes`` are the attachments that it has, on the wire's form, by volume. ``move`` is the one that has brought its
    disks here.

    A guest with the power state SHUTDOWN was ``stopped`` by its owner, or else switched off for a move. A guest is
    ``arriving`` from the preparation of its live migration until this host has taken it in.
    """

    uuid: str
    node: str
    attempt: int
    vcpus: int
    memory_mb: int
    disk_gb: int
    #: Of no account for a comparison: the owner may change it while a step is repeated.
    name: str = dataclasses.field(default="", compare=False)
    power_state: int = states.NOSTATE
    stopped: bool = False
    volumes: dict[str, dict[str, object]] = dataclasses.field(default_factory=dict)
    move: str = ""
    arriving: bool = False

    @classmethod
    def of(cls, instance: Instance, volumes: Sequence[Attachment] = ()) -> Self:
        return cls(
            uuid=instance.uuid,
            node=instance.node or "",
            attempt=instance.attempt,
            vcpus=instance.flavor.vcpus,
            memory_mb=instance.flavor.memory_mb,
            disk_gb=instance.flavor.claimed_disk_gb,
            name=instance.name,
            volumes={each.volume_uuid: each.to_wire() for each in volumes},
        )

    def to_dict(self) -> JSONObject:
        return dataclasses.asdict(self)

    def with_volume(self, attachment: Attachment) -> Self:
        return dataclasses.replace(self, volumes={**self.volumes, attachment.volume_uuid: attachment.to_wire()})

    def without_volume(self, volume_uuid: str) -> Self:
        left = {uuid: each for uuid, each in self.volumes.items() if uuid != volume_uuid}
        return dataclasses.replace(self, volumes=left)

    def attachments(self) -> list[Attachment]:
        return [Attachment.from_wire(each) for each in self.volumes.values()]

    def usage(self, resized: bool = False) -> JSONObject:
        """Return this guest's part of ``get_per_instance_usage``.

        :param resized: the driver keeps what it needs to undo a resize on this host
        """
        usage: dict[str, object] = {
            "uuid": self.uuid,
            "memory_mb": self.memory_mb,
            "node": self.node,
            "attempt": self.attempt,
        }
        if self.power_state == states.SHUTDOWN and not self.stopped:
            usage["switched_off"] = True
        if self.arriving:
            usage["arriving"] = True
        if resized:
            usage["resized_to"] = {"vcpus": self.vcpus, "memory_mb": self.memory_mb, "disk_gb": self.disk_gb}
        return usage


def read(path: pathlib.Path) -> GuestRecord | None:
    """Return the record in ``path``; None if there is none or it is not valid."""
    values = state_file.read(path)
    names = {field.name for field in dataclasses.fields(GuestRecord)}
    try:
        return GuestRecord(**{key: value for key, value in (values or {}).items() if key in names})
    except TypeError:
        return None


def write(path: pathlib.Path, record: GuestRecord) -> None:
    state_file.write(path, record.to_dict())


def log_end(instance_uuid: str, path: pathlib.Path, most_bytes: int) -> bytes:
    """Return the end of a guest's log. :raises errors.NotFound: there is no such guest"""
    try:
        with open(path, "rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - most_bytes))
            return log.read(most_bytes)
    except FileNotFoundError:
        raise errors.NotFound(kind="Guest", name=instance_uuid) from None
