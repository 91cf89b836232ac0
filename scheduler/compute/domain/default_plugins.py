# SPDX-License-Identifier: Apache-2.0
"""The filters and weighers that a scheduler of virtual machines has without configuration.

They are names and not classes, because every daemon reads the options of all services at its start: the classes would add
numpy to each of them. :mod:`scheduler.compute.domain.virtual_machines` and the options read them.
"""

FILTERS = (
    "RetryFilter",
    "AvailabilityZoneFilter",
    "RamFilter",
    "DiskFilter",
    "CoreFilter",
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "BridgeFilter",
    "GuestCpuFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
    "FailureDomainFilter",
    "PciPassthroughFilter",
    "NUMATopologyFilter",
)
WEIGHERS = ("scheduler.weights.all_weighers",)
