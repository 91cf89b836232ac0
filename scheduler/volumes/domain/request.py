# SPDX-License-Identifier: Apache-2.0
"""The request of ``select_backend``: cinder's ``request_spec`` and ``filter_properties`` dicts, parsed once.

:mod:`scheduler.volumes.manager` parses it from the message, and every driver for volumes receives it.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Hashable, Mapping, Sequence
from typing import Annotated, ClassVar, Self

import pydantic

from fleet import pool_capacity
from fleet.json_codec import JSONMapping
from fleet.objects import fields
from fleet.objects.volume import MOST

#: Entry points of the scheduler, as ``request_spec['operation']``.
EXTEND = "extend_volume"
MIGRATE = "migrate_volume_to_host"


@dataclasses.dataclass(frozen=True)
class Properties:
    """The keys of ``volume_properties`` that placement reads."""

    size: fields.Natural
    availability_zone: fields.Text | None = None
    project_id: fields.Text | None = None
    user_id: fields.Text | None = None
    host: fields.Text | None = None
    attach_status: fields.Text | None = None
    metadata: object = None
    qos_specs: object = None


@dataclasses.dataclass(frozen=True)
class VolumeType:
    id: object = None
    name: fields.Text | None = None
    extra_specs: dict[fields.Name, fields.LongText | None] | None = None
    qos_specs: object = None


@dataclasses.dataclass(frozen=True)
class Retry:
    """Pools already tried, ``machine@backend#pool``. Cinder writes both lists and reads ``backends`` first."""

    num_attempts: fields.Natural = 0
    hosts: list[fields.Text] | None = None
    backends: list[fields.Text] | None = None

    @property
    def tried(self) -> Sequence[str]:
        return (self.hosts if self.backends is None else self.backends) or ()


@dataclasses.dataclass(frozen=True)
class _Spec:
    volume_properties: Properties
    volume_id: fields.Uuid | None = None
    volume_ids: Annotated[list[fields.Uuid], pydantic.Field(max_length=MOST)] | None = None
    volume_type: VolumeType | None = None
    resource_backend: fields.Text | None = None
    availability_zones: list[fields.Text] | None = None
    operation: fields.Text | None = None
    begin_by: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True)
class _FilterProperties:
    retry: Retry | None = None
    scheduler_hints: dict[fields.Name, object] | None = None
    new_size: fields.Natural | None = None
    vol_exists_on: fields.Text | None = None
    ignore_hosts: list[fields.Text] | None = None


@dataclasses.dataclass(frozen=True)
class VolumeRequest:
    """One scheduling request for one volume, or for several new ones that are alike (``volume_ids``).

    ``request_spec`` and ``filter_properties`` are the dicts as sent; plugins written for cinder receive them.

    :param exists_on: pool that has the volume already, ``machine@backend#pool``
    :param backend: backend, or pool, that the request is restricted to
    :param zones: zones that the request allows, in place of the volume's own
    :param local_host: machine of the instance that the hint ``local_to_instance`` names
    :param all_projects: the caller sees the volumes of all projects
    :param begin_by: when the caller stops waiting for a scheduler to begin (naive UTC)
    """

    properties: Properties
    volume_id: str = ""
    volume_ids: tuple[str, ...] = ()
    volume_type: VolumeType = dataclasses.field(default_factory=VolumeType)
    new_size_gb: int | None = None
    exists_on: str | None = None
    backend: str | None = None
    zones: tuple[str, ...] = ()
    operation: str | None = None
    scheduler_hints: JSONMapping = dataclasses.field(default_factory=dict)
    retry: Retry | None = None
    ignore_hosts: tuple[str, ...] = ()
    local_host: str | None = None
    all_projects: bool = False
    begin_by: datetime.datetime | None = None
    request_spec: Mapping[str, object] = dataclasses.field(default_factory=dict)
    filter_properties: Mapping[str, object] = dataclasses.field(default_factory=dict)

    # What the engine reads of every request.
    force_hosts: ClassVar[Sequence[str]] = ()
    force_nodes: ClassVar[Sequence[str]] = ()
    requested_hosts: ClassVar[Sequence[str]] = ()
    requested_nodes: ClassVar[Sequence[str]] = ()
    within_hosts: ClassVar[Sequence[str] | None] = None
    ignore_nodes: ClassVar[Sequence[tuple[str, str]]] = ()
    group_updated: ClassVar[bool] = False
    group_hosts: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def from_wire(cls, request_spec: object, filter_properties: object = None) -> Self:
        """:raises errors.InvalidInput: naming the field"""
        spec = fields.parse(_Spec, request_spec, "request_spec")
        props = fields.parse(_FilterProperties, filter_properties or {}, "filter_properties")
        assert isinstance(request_spec, Mapping)
        return cls(
            properties=spec.volume_properties,
            volume_id=spec.volume_id or "",
            volume_ids=tuple(dict.fromkeys(spec.volume_ids or ())),
            volume_type=spec.volume_type or VolumeType(),
            new_size_gb=props.new_size or None,
            exists_on=props.vol_exists_on,
            backend=spec.resource_backend or None,
            zones=tuple(spec.availability_zones or ()),
            operation=spec.operation,
            scheduler_hints=props.scheduler_hints or {},
            retry=props.retry,
            ignore_hosts=tuple(props.ignore_hosts or ()),
            begin_by=fields.naive_utc(spec.begin_by, "request_spec.begin_by"),
            request_spec=request_spec,
            filter_properties=filter_properties if isinstance(filter_properties, Mapping) else {},
        )

    @property
    def instance_uuids(self) -> tuple[str, ...]:
        """Return the uuids of the volumes to place."""
        return self.volume_ids or ((self.volume_id,) if self.volume_id else ())

    @property
    def num_instances(self) -> int:
        return max(1, len(self.volume_ids))

    def of(self, volume_id: str) -> Self:
        """Return the request for one of its volumes alone."""
        return dataclasses.replace(self, volume_id=volume_id, volume_ids=())

    @property
    def extra_specs(self) -> Mapping[str, str | None]:
        return self.volume_type.extra_specs or {}

    @property
    def thin(self) -> bool:
        """Return True if the volume may be thin."""
        return self.extra_specs.get(pool_capacity.PROVISIONING) != pool_capacity.THICK

    @property
    def requested_gb(self) -> int:
        """GiB that the request needs more than the volume has: all of a new volume, the growth of one that is extended."""
        if self.new_size_gb is not None:
            return self.new_size_gb - self.properties.size
        return self.properties.size


def request_key(request: VolumeRequest) -> Hashable | None:
    """Return all that cacheable plugins may read of a request, as one value; None if it must not be cached.

    A request with hints, failed attempts or a volume that exists has no key: it is rare, or its answer depends on other
    volumes.
    """
    retried = request.retry is not None and request.retry.tried
    if retried or request.scheduler_hints or request.exists_on or request.new_size_gb is not None:
        return None
    specs = frozenset(request.extra_specs.items()) if request.extra_specs else None
    wanted = request.properties
    return wanted.size, specs, wanted.availability_zone, request.zones, request.backend, request.operation
