# SPDX-License-Identifier: Apache-2.0
"""The request of a client for a build. Conductors parse it from the message, before they write anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

import pydantic

from fleet import errors
from fleet.json_codec import JSONObject
from fleet.objects import fields, hints, network
from fleet.objects.access_address import AccessV4, AccessV6
from fleet.objects.attachment import DEVICES
from fleet.objects.block_device import BlockDevice
from fleet.objects.boot_data import UserData
from fleet.objects.changes import DiskConfig, Tags
from fleet.objects.flavor import Flavor
from fleet.objects.host_name import HostName
from fleet.objects.image import Image
from fleet.objects.uuid_like import GivenText
from fleet.objects.zone import Zone

#: 30 days.
LONGEST_WAIT_S = 30 * 86400
#: Fields that the first release did not have, and their defaults.
_ADDED: Mapping[str, object] = {
    "wait_for_capacity_s": None,
    "description": "",
    "tags": [],
    "key_name": None,
    "user_data": None,
    "block_device_mapping": [],
    "networks": network.NONE,
    "access_ip_v4": "",
    "access_ip_v6": "",
    "hostname": None,
    "disk_config": None,
    "admin_password": None,
    "requested_host": None,
    "requested_node": None,
}


@dataclasses.dataclass(frozen=True)
class BuildRequest:
    """One ``create`` of ``max_count`` instances of one flavor.

    If only ``min_count`` or more of them find room, those are built and the others end in ERROR. If fewer do, none is
    placed. ``flavor`` is a flavor's name or its sizes. ``count`` stands for ``min_count = max_count``.
    ``scheduler_hints`` are free-form; the built-in filters read ``group``, ``same_host``, ``different_host``,
    ``query``, ``build_near_host_ip`` and ``cidr``. ``max_attempts`` is the most hosts to try, at most the option
    ``scheduler_max_attempts``; with 1 a failed attempt is not repeated. ``wait_for_capacity_s`` is how long the builds
    wait if no host has room; None is the conductor's default for the project. ``key_name`` is one of the user's key pairs.
    ``user_data`` may have secrets: the stored request is without it. ``block_device_mapping`` are volumes of a single
    instance. ``networks`` are those that the guests are plugged into: ``auto`` is the project's default one. ``hostname`` of
    several instances gets a number. ``admin_password`` is for the default user of the guests; the stored request is without
    it. Nothing is done with ``access_ip_v4``, ``access_ip_v6`` and ``disk_config``. ``requested_host`` and
    ``requested_node`` are the only ones to consider; unlike those of ``availability_zone``, they must pass the filters.
    """

    flavor: Annotated[str | Flavor, pydantic.PlainValidator(lambda value: value)]
    name: GivenText = ""
    image: Image = dataclasses.field(default_factory=Image)
    count: fields.InstanceCount | None = None
    min_count: fields.InstanceCount | None = None
    max_count: fields.InstanceCount | None = None
    availability_zone: fields.Text = ""
    scheduler_hints: dict[fields.Name, Any] = dataclasses.field(default_factory=dict)
    group: fields.Text = ""
    ignore_hosts: list[fields.Name] = dataclasses.field(default_factory=list)
    metadata: fields.Metadata = dataclasses.field(default_factory=dict)
    description: fields.Text = ""
    tags: Tags = dataclasses.field(default_factory=list)
    max_attempts: fields.Positive | None = None
    wait_for_capacity_s: Annotated[int, pydantic.Strict(), pydantic.Field(ge=0, le=LONGEST_WAIT_S)] | None = None
    key_name: fields.Name | None = None
    user_data: UserData | None = dataclasses.field(default=None, repr=False)
    block_device_mapping: Annotated[list[BlockDevice], pydantic.Field(max_length=len(DEVICES))] = dataclasses.field(
        default_factory=list
    )
    networks: Annotated[network.Wanted, pydantic.PlainValidator(lambda value: value)] = network.NONE
    access_ip_v4: AccessV4 = ""
    access_ip_v6: AccessV6 = ""
    hostname: HostName | None = None
    disk_config: DiskConfig | None = None
    admin_password: fields.Name | None = dataclasses.field(default=None, repr=False)
    requested_host: fields.Name | None = None
    requested_node: fields.Name | None = None

    @classmethod
    def from_wire(cls, data: object, field: str = "request") -> BuildRequest:
        """:raises errors.InvalidInput: naming the field"""
        request = fields.parse(cls, data, field)
        wanted = network.parse_wanted(request.networks, f"{field}.networks")
        request = dataclasses.replace(request, flavor=parse_flavor(request.flavor, f"{field}.flavor"), networks=wanted)
        request._require_bounds(field)
        low = request.min_count or request.count or 1
        high = request.max_count or request.count or low
        if low > high:
            raise errors.InvalidInput(
                field=f"{field}.min_count", reason=f"is {low}, which may not exceed max_count {high}"
            )
        zone = Zone.parse(request.availability_zone, f"{field}.availability_zone")
        for name in ("requested_host", "requested_node"):
            if zone.forced and getattr(request, name):
                raise errors.InvalidInput(
                    field=f"{field}.{name}", reason="may not stand beside a host in availability_zone"
                )
        hints.check(request.scheduler_hints, f"{field}.scheduler_hints")
        request._check_volumes(f"{field}.block_device_mapping")
        request._check_networks(f"{field}.networks")
        return request

    def _require_bounds(self, field: str) -> None:
        """Check the bounds before other values are made of the fields. :raises errors.InvalidInput:"""
        if isinstance(self.flavor, Flavor):
            self.flavor.require_bounds(f"{field}.flavor")
        fields.require_small(self.image.properties, f"{field}.image.properties")
        fields.require_small(self.scheduler_hints, f"{field}.scheduler_hints")
        fields.require_small(self.metadata, f"{field}.metadata")

    def _check_volumes(self, field: str) -> None:
        """:raises errors.InvalidInput:"""
        if self.block_device_mapping and self.num_instances > 1:
            reason = f"is for one instance, and the request is for {self.num_instances}: a volume has one instance"
            raise errors.InvalidInput(field=field, reason=reason)
        if any(each.delete_on_termination for each in self.block_device_mapping):
            reason = "must be false: no volume is deleted with its instance; delete it afterwards"
            raise errors.InvalidInput(field=f"{field}.delete_on_termination", reason=reason)

    def _check_networks(self, field: str) -> None:
        """:raises errors.InvalidInput: several instances are to have one address"""
        if self.num_instances > 1 and any(each.address for each in network.named(self.networks)):
            reason = f"is for one instance, and the request is for {self.num_instances}"
            raise errors.InvalidInput(field=f"{field}.address", reason=reason)

    def to_wire(self) -> JSONObject:
        wire = dataclasses.asdict(self)
        for name, unset in _ADDED.items():
            if wire[name] == unset:
                # As an earlier release sends it: the hash of a repeated request must not differ.
                del wire[name]
        return wire

    @property
    def num_instances(self) -> int:
        return self.max_count or self.count or self.min_count or 1

    @property
    def fewest(self) -> int:
        """The least number of instances that must be placed; otherwise none is."""
        return self.min_count or self.count or self.num_instances

    @property
    def group_name(self) -> str:
        """The requested server group: the option, or nova's ``group`` hint."""
        return self.group or self.scheduler_hints.get("group") or ""


def parse_flavor(flavor: object, field: str) -> str | Flavor:
    """Parse a name or sizes; a union type would name pydantic's branches in the error."""
    return fields.parse(fields.Name, flavor, field) if isinstance(flavor, str) else Flavor.from_wire(flavor, field)
