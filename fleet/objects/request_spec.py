# SPDX-License-Identifier: Apache-2.0
"""The request of ``select_destinations``: nova's ``request_spec`` and ``filter_properties`` dicts, parsed once.

Every driver of :mod:`scheduler.compute.drivers` receives one.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from fleet import errors
from fleet.json_codec import JSONMapping
from fleet.objects import fields, group_rule, numa, pci
from fleet.objects.flavor import Flavor
from fleet.objects.group_rule import GroupRule
from fleet.objects.guest_cpu import GuestCpu
from fleet.objects.holding import Holding
from fleet.objects.image import Image


@dataclasses.dataclass(frozen=True)
class InstanceProperties:
    """The keys of ``request_spec['instance_properties']`` that placement reads; sizes fall back to the flavor's."""

    uuid: fields.Text = ""
    project_id: fields.Text | None = None
    user_id: fields.Text | None = None
    reservation_id: fields.Text | None = None
    availability_zone: fields.Text | None = None
    image_ref: fields.Text | None = None
    memory_mb: fields.Natural | None = None
    vcpus: fields.Natural | None = None
    root_gb: fields.Natural | None = None
    ephemeral_gb: fields.Natural | None = None
    numa_topology: Any = None
    pci_requests: Any = None
    #: Of the networks that the instance is plugged into.
    bridges: list[fields.Name] | None = None


@dataclasses.dataclass(frozen=True)
class Retry:
    """Hosts already tried, as ``[host, node]`` pairs."""

    num_attempts: fields.Natural = 0
    hosts: list[tuple[fields.Text, fields.Text | None]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class _Destination:
    host: fields.Text | None = None
    node: fields.Text | None = None


@dataclasses.dataclass(frozen=True)
class _FilterProperties:
    retry: Retry | None = None
    scheduler_hints: dict[fields.Name, Any] | None = None
    ignore_hosts: list[fields.Text] | None = None
    within_hosts: list[fields.Text] | None = None
    force_hosts: list[fields.Text] | None = None
    force_nodes: list[fields.Text] | None = None
    requested_destination: _Destination | None = None
    group_updated: bool = False
    group_hosts: list[fields.Text] | None = None
    group_policies: list[fields.Text] | None = None
    group_members: list[fields.Text] | None = None
    #: (uuid, host) of the members that are on hosts; two of one that is being moved.
    group_places: list[tuple[fields.Text, fields.Text]] | None = None
    group_uuid: fields.Text | None = None
    group_max_server_per_host: fields.Positive = 1
    group_rules: Any = None
    #: The place of these keys in nova's Kilo release.
    pci_requests: Any = None
    guest_cpu: GuestCpu | None = None


@dataclasses.dataclass(frozen=True)
class SentSpec:
    """The dict ``request_spec`` as sent. A variant of the contract may allow more."""

    instance_type: Flavor
    num_instances: fields.InstanceCount
    image: Image | None = None
    instance_properties: InstanceProperties = dataclasses.field(default_factory=InstanceProperties)
    instance_uuids: list[fields.Uuid] | None = None
    holding: Any = None
    begin_by: datetime.datetime | None = None


@dataclasses.dataclass(frozen=True)
class RequestSpec:
    """One scheduling request for ``num_instances`` instances of one flavor.

    ``request_spec`` and ``filter_properties`` are the dicts as sent; plugins written for nova receive them.
    ``requested_hosts`` and ``requested_nodes`` are the only ones to consider; unlike forced ones, they must pass the
    filters. Those among ``within_hosts`` are considered; None: all of them. A scheduler sets
    ``ignore_nodes`` (host and node) for itself: no message has them.
    ``holding`` is what the instance already holds, which a dry run ignores. ``begin_by`` (naive UTC) is when the
    caller stops waiting for a scheduler to begin; None if the caller did not send it. ``guest_cpu`` is what a guest needs
    that moves while it runs; None if any processor has it.
    """

    sent_form: ClassVar[type[SentSpec]] = SentSpec

    flavor: Flavor
    num_instances: int = 1
    instance_uuids: tuple[str, ...] = ()
    image: Image = dataclasses.field(default_factory=Image)
    instance: InstanceProperties = dataclasses.field(default_factory=InstanceProperties)
    scheduler_hints: JSONMapping = dataclasses.field(default_factory=dict)
    retry: Retry | None = None
    ignore_hosts: tuple[str, ...] = ()
    within_hosts: tuple[str, ...] | None = None
    force_hosts: tuple[str, ...] = ()
    force_nodes: tuple[str, ...] = ()
    requested_hosts: tuple[str, ...] = ()
    requested_nodes: tuple[str, ...] = ()
    ignore_nodes: tuple[tuple[str, str], ...] = ()
    group_updated: bool = False
    group_hosts: frozenset[str] = frozenset()
    group_policies: frozenset[str] = frozenset()
    group_members: frozenset[str] = frozenset()
    group_places: frozenset[tuple[str, str]] = frozenset()
    group_uuid: str | None = None
    group_max_server_per_host: int = 1
    group_rules: tuple[GroupRule, ...] = ()
    request_spec: JSONMapping = dataclasses.field(default_factory=dict)
    filter_properties: JSONMapping = dataclasses.field(default_factory=dict)
    numa_topology: numa.InstanceTopology | None = None
    pci_requests: tuple[pci.PciRequest, ...] = ()
    holding: Holding | None = None
    begin_by: datetime.datetime | None = None
    guest_cpu: GuestCpu | None = None

    @property
    def room_is_given(self) -> bool:
        """True if another service has judged which hosts have room; the filters for capacity then pass all hosts."""
        return False

    @classmethod
    def from_wire(cls, request_spec: object, filter_properties: object) -> Self:
        """:raises errors.InvalidInput: naming the field"""
        spec = fields.parse(cls.sent_form, request_spec, "request_spec")
        props = fields.parse(_FilterProperties, filter_properties or {}, "filter_properties")
        assert isinstance(request_spec, Mapping)
        of = "request_spec.instance_properties"
        destination = props.requested_destination or _Destination()
        uuids = spec.instance_uuids or ([spec.instance_properties.uuid] if spec.instance_properties.uuid else [])
        if spec.instance_uuids and len(spec.instance_uuids) != spec.num_instances:
            raise errors.InvalidInput(
                field="request_spec.instance_uuids",
                reason=f"has {len(spec.instance_uuids)} entries for num_instances {spec.num_instances}",
            )
        return cls(
            flavor=spec.instance_type,
            num_instances=spec.num_instances,
            instance_uuids=tuple(uuids),
            image=spec.image or Image(),
            instance=spec.instance_properties,
            scheduler_hints=props.scheduler_hints or {},
            retry=props.retry,
            ignore_hosts=tuple(props.ignore_hosts or ()),
            within_hosts=None if props.within_hosts is None else tuple(props.within_hosts),
            force_hosts=tuple(props.force_hosts or ()),
            force_nodes=tuple(props.force_nodes or ()),
            requested_hosts=(destination.host,) if destination.host else (),
            requested_nodes=(destination.node,) if destination.node else (),
            group_updated=props.group_updated,
            group_hosts=frozenset(props.group_hosts or ()),
            group_policies=frozenset(props.group_policies or ()),
            group_members=frozenset(props.group_members or ()),
            group_places=frozenset(props.group_places or ()),
            group_uuid=props.group_uuid,
            group_max_server_per_host=props.group_max_server_per_host,
            group_rules=group_rule.parse(props.group_rules, "filter_properties.group_rules"),
            request_spec=request_spec,
            filter_properties=filter_properties if isinstance(filter_properties, Mapping) else {},
            numa_topology=numa.InstanceTopology.from_wire(
                spec.instance_properties.numa_topology, f"{of}.numa_topology"
            ),
            pci_requests=pci.requests_from_wire(
                spec.instance_properties.pci_requests or props.pci_requests, f"{of}.pci_requests"
            ),
            holding=Holding.from_wire(spec.holding, "request_spec.holding") if spec.holding else None,
            begin_by=fields.naive_utc(spec.begin_by, "request_spec.begin_by"),
            guest_cpu=props.guest_cpu,
        )

    # The instance's own record says what it consumes; filters test the flavor.

    @property
    def memory_mb(self) -> int:
        return self.flavor.memory_mb if self.instance.memory_mb is None else self.instance.memory_mb

    @property
    def vcpus(self) -> int:
        return self.flavor.vcpus if self.instance.vcpus is None else self.instance.vcpus

    @property
    def root_gb(self) -> int:
        return self.flavor.root_gb if self.instance.root_gb is None else self.instance.root_gb

    @property
    def ephemeral_gb(self) -> int:
        return self.flavor.ephemeral_gb if self.instance.ephemeral_gb is None else self.instance.ephemeral_gb
