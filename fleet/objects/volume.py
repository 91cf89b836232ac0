# SPDX-License-Identifier: Apache-2.0
"""A volume: what a user asks for, and its row as services exchange it.

:mod:`conductor_stub.volumes.intake` parses requests, and each order for a volume agent carries the row.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import pydantic

from fleet import volume_states
from fleet.json_codec import JSONObject
from fleet.objects import fields, location, uuid_like
from fleet.objects.volume_type import VolumeType

#: Volumes of one request.
MOST = 1000
#: GiB: more than any backend has, and sums of it fit into the ledger's columns.
LARGEST_GB = 2**24

Size = Annotated[int, pydantic.Strict(), pydantic.Field(ge=1, le=LARGEST_GB)]


def size_of(size_gb: int, volume_type: str | None) -> str:
    """The size and the type of a volume in words, by which refusals are counted."""
    return f"{size_gb} GiB of type {volume_type}" if volume_type else f"{size_gb} GiB"


@dataclasses.dataclass(frozen=True)
class VolumeRequest:
    """``count`` volumes of ``size`` GiB.

    :param size: None: that of ``source`` or ``snapshot``, or the least that ``image`` needs
    :param source: name or uuid of a volume whose data the new ones begin with; they are made on its pool
    :param snapshot: name or uuid of a snapshot, in place of ``source``
    :param image: name or uuid of an image, in place of both; the volumes may be made anywhere
    :param volume_type: its name; None asks nothing of the pool, or what the source asks
    """

    size: Size | None = None
    source: fields.Name | None = None
    snapshot: fields.Name | None = None
    image: fields.Name | None = None
    name: uuid_like.GivenText = ""
    count: Annotated[int, pydantic.Strict(), pydantic.Field(ge=1, le=MOST)] = 1
    volume_type: fields.Name | None = None
    availability_zone: fields.Name | None = None
    scheduler_hints: dict[fields.Name, Any] = dataclasses.field(default_factory=dict)
    metadata: fields.Metadata = dataclasses.field(default_factory=dict)
    description: fields.Text = ""

    @classmethod
    def from_wire(cls, data: object, field: str = "request") -> VolumeRequest:
        """:raises errors.InvalidInput: naming the field"""
        request = fields.parse(cls, data, field)
        fields.require_small(request.scheduler_hints, f"{field}.scheduler_hints")
        fields.require_small(request.metadata, f"{field}.metadata")
        return request

    def to_wire(self) -> JSONObject:
        # An empty one is left out, so that a request is the same as in earlier releases.
        return {name: value for name, value in vars(self).items() if value or name != "description"}


@dataclasses.dataclass(frozen=True)
class ManageRequest:
    """A request to manage data of a pool as a volume.

    :param host: the pool, ``machine@backend#pool``, or a backend with one pool
    :param reference: what it is called there, in the words of the pool's driver
    """

    host: fields.Name
    reference: fields.Name
    name: uuid_like.GivenText = ""
    volume_type: fields.Name | None = None
    availability_zone: fields.Name | None = None
    metadata: fields.Metadata = dataclasses.field(default_factory=dict)

    @classmethod
    def from_wire(cls, data: object, field: str = "request") -> ManageRequest:
        """:raises errors.InvalidInput: naming the field"""
        request = fields.parse(cls, data, field)
        fields.require_small(request.metadata, f"{field}.metadata")
        return request

    def to_wire(self) -> JSONObject:
        return dict(vars(self))


@dataclasses.dataclass(frozen=True)
class VolumeImage:
    """The fields of an image that a backend needs to make a volume of it: part of an ``ImageRecord``."""

    uuid: fields.Text
    name: fields.Text
    location: fields.LongText
    checksum: fields.Text = ""
    disk_format: fields.Text = "raw"


@dataclasses.dataclass(frozen=True)
class Volume:
    """A volume, or a snapshot of one. ``host`` and ``pool`` are None until space is claimed.

    ``attempt`` counts the tried pools, from 1.

    ``claimed_gb`` is what the volume holds of its pool: more than ``size_gb`` while it is being extended. ``held_host`` and
    ``held_pool`` name a second pool that it holds space of: the destination of its migration, or a pool that it leaves.
    """

    uuid: fields.Uuid
    name: fields.Text
    size_gb: fields.Natural
    status: fields.Name
    step: fields.Text | None = None
    attempt: fields.Natural = 0
    host: fields.Text | None = None
    pool: fields.Text | None = None
    claimed_gb: fields.Natural = 0
    held_host: fields.Text | None = None
    held_pool: fields.Text | None = None
    #: Of a migration: where the source's data are, as the driver there reports it.
    copy_from: fields.LongText | None = None
    #: Of a migration: the destination may have a copy that an earlier attempt has left. It is older than the volume.
    old_copy: fields.Flag = False
    #: The volume or snapshot whose data this one begins with. A snapshot has its volume here too.
    source_uuid: fields.Uuid | None = None
    #: The image whose data it begins with.
    image: VolumeImage | None = None
    #: What a volume was called on its pool before it was managed.
    reference: fields.Name | None = None
    #: Of a snapshot: its volume.
    snapshot_of: fields.Uuid | None = None
    volume_type: VolumeType | None = None
    metadata: fields.Texts = dataclasses.field(default_factory=dict)
    request_id: fields.Text | None = None

    @classmethod
    def from_wire(cls, data: object, field: str = "volume") -> Volume:
        """:raises errors.InvalidInput: naming the field"""
        return fields.parse(cls, data, field)

    def to_wire(self) -> JSONObject:
        return dataclasses.asdict(self)

    @property
    def acting(self) -> tuple[str | None, str | None]:
        """Backend and pool that something must be done on; (None, None) if nothing must."""
        if self.step in volume_states.HOLDING:
            return self.held_host, self.held_pool
        return (self.host, self.pool) if self.step == volume_states.WORKING else (None, None)

    def pools_on(self, host: str) -> set[str | None]:
        """The pools of a backend that the volume claims or holds space of."""
        return {pool for on, pool in ((self.host, self.pool), (self.held_host, self.held_pool)) if on == host}

    @property
    def location(self) -> str | None:
        """``machine@backend#pool``."""
        return location.append_host(self.host, self.pool)
