# SPDX-License-Identifier: Apache-2.0
"""Adds to a request what nova-scheduler's request filters add, by the options of its section ``[scheduler]``.

:mod:`scheduler.nova.placing` applies them to each request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Mapping
from typing import Self

from oslo_config import cfg

from fleet import errors
from fleet.json_codec import JSONMapping
from fleet.objects import Aggregate
from scheduler.nova.request import NovaRequest

_TENANT = "filter_tenant_id"
_TRAIT = "trait:"
#: Image property → beginning of the trait that a host with it has.
_METADATA: Mapping[str, str] = {
    "hw_cdrom_bus": "COMPUTE_STORAGE_BUS",
    "hw_disk_bus": "COMPUTE_STORAGE_BUS",
    "hw_video_model": "COMPUTE_GRAPHICS_MODEL",
    "hw_vif_model": "COMPUTE_NET_VIF_MODEL",
    "hw_architecture": "HW_ARCH",
    "hw_emulation_architecture": "COMPUTE_ARCH",
    "hw_viommu_model": "COMPUTE_VIOMMU",
}


@dataclasses.dataclass(frozen=True)
class RequestFilters:
    """The switches have nova's names."""

    limit_tenants_to_placement_aggregate: bool = False
    placement_aggregate_required_for_tenants: bool = False
    enable_isolated_aggregate_filtering: bool = False
    query_placement_for_image_type_support: bool = False
    image_metadata_prefilter: bool = False

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(**{each.name: conf.nova[each.name] for each in dataclasses.fields(cls)})

    def apply(
        self, request: NovaRequest, aggregates: Iterable[Aggregate], traits: Container[str] | None = None
    ) -> NovaRequest:
        """Return the request with the parts that the options add.

        :param traits: the names that placement has; None if they are not known
        :raises errors.NoValidHost: the project needs an aggregate, and has none
        """
        if not any(dataclasses.astuple(self)) or request.wanted is None:
            return request
        known = [each for each in aggregates if each.uuid]
        destination = request.destination
        if self.limit_tenants_to_placement_aggregate:
            found = self._of_tenant(known, request.instance.project_id)
            if found:
                destination = dataclasses.replace(destination, aggregates=(*destination.aggregates, found))
        if self.enable_isolated_aggregate_filtering:
            asked = frozenset[str]().union(*(group.required for group in request.wanted.groups.values()))
            isolated = destination.forbidden_aggregates | _isolated(known, asked)
            destination = dataclasses.replace(destination, forbidden_aggregates=isolated)
        required = self._traits(request, traits)
        wanted = dataclasses.replace(request.wanted, root_required=request.wanted.root_required | required)
        return dataclasses.replace(
            request, destination=destination, wanted=wanted, required_traits=request.required_traits | required
        )

    def _of_tenant(self, aggregates: Iterable[Aggregate], project_id: str | None) -> frozenset[str]:
        found = frozenset(
            str(each.uuid)
            for each in aggregates
            if any(key.startswith(_TENANT) and value == project_id for key, value in each.metadata.items())
        )
        if not found and self.placement_aggregate_required_for_tenants:
            raise errors.NoValidHost(reason=f"No host aggregate has {_TENANT} for project {project_id}.")
        return found

    def _traits(self, request: NovaRequest, known: Container[str] | None) -> frozenset[str]:
        """Return the traits that the image needs of the compute node.

        As in nova, a name that is no trait restricts nothing: a disk format by itself, the image's properties all together.
        """
        image: JSONMapping = request.image.properties
        groups: list[list[str]] = []
        if self.query_placement_for_image_type_support and not request.is_bfv and request.disk_format:
            groups.append([f"COMPUTE_IMAGE_TYPE_{request.disk_format.upper()}"])
        if self.image_metadata_prefilter:
            named = ((start, image.get(name)) for name, start in _METADATA.items())
            groups.append([f"{start}_{str(value).replace('-', '_').upper()}" for start, value in named if value])
        return frozenset(
            name for group in groups if known is None or all(each in known for each in group) for name in group
        )


def _isolated(aggregates: Iterable[Aggregate], required: frozenset[str]) -> frozenset[str]:
    """Return the aggregates that want a trait which the request does not require."""

    def wants(each: Aggregate) -> set[str]:
        keys = (key for key, value in each.metadata.items() if value == "required")
        return {key.removeprefix(_TRAIT) for key in keys if key.startswith(_TRAIT)}

    return frozenset(str(each.uuid) for each in aggregates if wants(each) - required)
