# SPDX-License-Identifier: Apache-2.0
"""The filters: each decides which hosts may take an instance, one concern a file.

Vocabulary: a filter *passes* a host or drops it; a *mask* holds the answer for all hosts at once; a *limit* is what the
claim on the chosen host must stay under. A filter does not change what it judges, so their order matters for speed and
for the reasons given only: cheap and selective ones go first.

Read ``base`` for the two forms, then ``ram`` for an example. A new filter is a file here and a line in ``CLASSES``.
One of your own needs neither: subclass :class:`BaseHostFilter` and name its dotted path in
``scheduler_available_filters``.
"""

from fleet.objects import RequestSpec
from scheduler.compute.filters.affinity import (
    DifferentHostFilter,
    SameHostFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
)
from scheduler.compute.filters.aggregate_image_properties_isolation import AggregateImagePropertiesIsolation
from scheduler.compute.filters.aggregate_instance_extra_specs import AggregateInstanceExtraSpecsFilter
from scheduler.compute.filters.aggregate_multitenancy_isolation import AggregateMultiTenancyIsolation
from scheduler.compute.filters.all_hosts import AllHostsFilter
from scheduler.compute.filters.availability_zone import AvailabilityZoneFilter
from scheduler.compute.filters.base import BaseHostFilter, ColumnFilter
from scheduler.compute.filters.bridge import BridgeFilter
from scheduler.compute.filters.cidr_affinity import SimpleCIDRAffinityFilter
from scheduler.compute.filters.compute import ComputeFilter
from scheduler.compute.filters.compute_capabilities import ComputeCapabilitiesFilter
from scheduler.compute.filters.core import AggregateCoreFilter, CoreFilter
from scheduler.compute.filters.disk import AggregateDiskFilter, DiskFilter
from scheduler.compute.filters.exact import ExactCoreFilter, ExactDiskFilter, ExactRamFilter
from scheduler.compute.filters.failure_domain import FailureDomainFilter
from scheduler.compute.filters.guest_cpu import GuestCpuFilter
from scheduler.compute.filters.handler import HostFilterHandler
from scheduler.compute.filters.image_properties import ImagePropertiesFilter
from scheduler.compute.filters.io_ops import AggregateIoOpsFilter, IoOpsFilter
from scheduler.compute.filters.isolated_hosts import IsolatedHostsFilter
from scheduler.compute.filters.json import JsonFilter
from scheduler.compute.filters.metrics import MetricsFilter
from scheduler.compute.filters.num_instances import AggregateNumInstancesFilter, NumInstancesFilter
from scheduler.compute.filters.numa_topology import NUMATopologyFilter
from scheduler.compute.filters.pci_passthrough import PciPassthroughFilter
from scheduler.compute.filters.ram import AggregateRamFilter, RamFilter
from scheduler.compute.filters.retry import RetryFilter
from scheduler.compute.filters.trusted import TrustedFilter
from scheduler.compute.filters.type_affinity import AggregateTypeAffinityFilter, TypeAffinityFilter
from scheduler.why.shortfall import Shortfall

__all__ = [
    "AggregateCoreFilter",
    "AggregateDiskFilter",
    "AggregateImagePropertiesIsolation",
    "AggregateInstanceExtraSpecsFilter",
    "AggregateIoOpsFilter",
    "AggregateMultiTenancyIsolation",
    "AggregateNumInstancesFilter",
    "AggregateRamFilter",
    "AggregateTypeAffinityFilter",
    "AllHostsFilter",
    "AvailabilityZoneFilter",
    "BaseHostFilter",
    "BridgeFilter",
    "CLASSES",
    "ColumnFilter",
    "ComputeCapabilitiesFilter",
    "ComputeFilter",
    "CoreFilter",
    "DifferentHostFilter",
    "DiskFilter",
    "ExactCoreFilter",
    "ExactDiskFilter",
    "ExactRamFilter",
    "FailureDomainFilter",
    "GuestCpuFilter",
    "HostFilterHandler",
    "ImagePropertiesFilter",
    "IoOpsFilter",
    "IsolatedHostsFilter",
    "JsonFilter",
    "MetricsFilter",
    "NUMATopologyFilter",
    "NumInstancesFilter",
    "PciPassthroughFilter",
    "RamFilter",
    "RetryFilter",
    "SameHostFilter",
    "ServerGroupAffinityFilter",
    "ServerGroupAntiAffinityFilter",
    "Shortfall",
    "SimpleCIDRAffinityFilter",
    "TrustedFilter",
    "TypeAffinityFilter",
    "all_filters",
]

CLASSES: tuple[type[BaseHostFilter[RequestSpec]], ...] = (
    AggregateCoreFilter,
    AggregateDiskFilter,
    AggregateImagePropertiesIsolation,
    AggregateInstanceExtraSpecsFilter,
    AggregateIoOpsFilter,
    AggregateMultiTenancyIsolation,
    AggregateNumInstancesFilter,
    AggregateRamFilter,
    AggregateTypeAffinityFilter,
    AllHostsFilter,
    AvailabilityZoneFilter,
    BridgeFilter,
    ComputeCapabilitiesFilter,
    ComputeFilter,
    CoreFilter,
    DifferentHostFilter,
    DiskFilter,
    ExactCoreFilter,
    ExactDiskFilter,
    ExactRamFilter,
    FailureDomainFilter,
    GuestCpuFilter,
    ImagePropertiesFilter,
    IoOpsFilter,
    IsolatedHostsFilter,
    JsonFilter,
    MetricsFilter,
    NUMATopologyFilter,
    NumInstancesFilter,
    PciPassthroughFilter,
    RamFilter,
    RetryFilter,
    SameHostFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
    SimpleCIDRAffinityFilter,
    TrustedFilter,
    TypeAffinityFilter,
)

HostFilterHandler.built_in = CLASSES


def all_filters() -> list[type[BaseHostFilter[RequestSpec]]]:
    """The default of ``scheduler_available_filters``: every filter that comes with the scheduler."""
    return list(CLASSES)
