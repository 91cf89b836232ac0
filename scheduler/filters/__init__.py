# SPDX-License-Identifier: Apache-2.0
"""Who is let through: one concern a file.

Vocabulary: a filter *passes* a host or drops it; a *mask* holds the answer for all hosts at once; a *limit* is what the
claim on the chosen host must stay under. A filter does not change what it judges, so their order matters for speed and
for the reasons given only: cheap and selective ones go first.

Read ``base`` for the two forms, then ``ram`` for an example. A new filter is a file here and a line in ``CLASSES``.
One of your own needs neither: subclass :class:`BaseHostFilter` and name its dotted path in
``scheduler_available_filters``.
"""

from scheduler.filters.affinity import (
    DifferentHostFilter,
    SameHostFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
)
from scheduler.filters.all_hosts import AllHostsFilter
from scheduler.filters.availability_zone import AvailabilityZoneFilter
from scheduler.filters.base import BaseHostFilter, ColumnFilter, over_columns
from scheduler.filters.compute import ComputeFilter
from scheduler.filters.core import AggregateCoreFilter, CoreFilter
from scheduler.filters.disk import AggregateDiskFilter, DiskFilter
from scheduler.filters.ram import AggregateRamFilter, RamFilter
from scheduler.filters.retry import RetryFilter

__all__ = [
    "CLASSES",
    "AggregateCoreFilter",
    "AggregateDiskFilter",
    "AggregateRamFilter",
    "AllHostsFilter",
    "AvailabilityZoneFilter",
    "BaseHostFilter",
    "ColumnFilter",
    "ComputeFilter",
    "CoreFilter",
    "DifferentHostFilter",
    "DiskFilter",
    "RamFilter",
    "RetryFilter",
    "SameHostFilter",
    "ServerGroupAffinityFilter",
    "ServerGroupAntiAffinityFilter",
    "all_filters",
    "over_columns",
]

CLASSES: tuple[type[BaseHostFilter], ...] = (
    AggregateCoreFilter,
    AggregateDiskFilter,
    AggregateRamFilter,
    AllHostsFilter,
    AvailabilityZoneFilter,
    ComputeFilter,
    CoreFilter,
    DifferentHostFilter,
    DiskFilter,
    RamFilter,
    RetryFilter,
    SameHostFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
)


def all_filters() -> list[type[BaseHostFilter]]:
    """The default of ``scheduler_available_filters``: every filter that comes with the scheduler."""
    return list(CLASSES)
