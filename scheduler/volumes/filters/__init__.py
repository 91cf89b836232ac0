# SPDX-License-Identifier: Apache-2.0
"""The filters for volumes: each decides which pools may take a volume, one concern a file.

Read ``base`` for the two forms, then ``capacity`` for an example; ``restrictions`` always run. A filter of your own needs no
change here: subclass :class:`BaseBackendFilter`, and name its dotted path in ``[volume] scheduler_default_filters``.
"""

from scheduler.volumes.filters.affinity import DifferentBackendFilter, SameBackendFilter
from scheduler.volumes.filters.availability_zone import AvailabilityZoneFilter
from scheduler.volumes.filters.base import BaseBackendFilter, BaseHostFilter, ColumnFilter
from scheduler.volumes.filters.capabilities import CapabilitiesFilter
from scheduler.volumes.filters.capacity import CapacityFilter
from scheduler.volumes.filters.driver import DriverFilter
from scheduler.volumes.filters.ignore_attempted_hosts import IgnoreAttemptedHostsFilter
from scheduler.volumes.filters.instance_locality import InstanceLocalityFilter
from scheduler.volumes.filters.json import JsonFilter

__all__ = [
    "AvailabilityZoneFilter",
    "BaseBackendFilter",
    "BaseHostFilter",
    "CLASSES",
    "CapabilitiesFilter",
    "CapacityFilter",
    "ColumnFilter",
    "DifferentBackendFilter",
    "DriverFilter",
    "IgnoreAttemptedHostsFilter",
    "InstanceLocalityFilter",
    "JsonFilter",
    "SameBackendFilter",
]

CLASSES: tuple[type[ColumnFilter], ...] = (
    AvailabilityZoneFilter,
    CapabilitiesFilter,
    CapacityFilter,
    DifferentBackendFilter,
    DriverFilter,
    IgnoreAttemptedHostsFilter,
    InstanceLocalityFilter,
    JsonFilter,
    SameBackendFilter,
)
