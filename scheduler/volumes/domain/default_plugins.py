# SPDX-License-Identifier: Apache-2.0
"""The filters and weighers that a scheduler of volumes has without configuration.

They are names for the reason that :mod:`scheduler.compute.domain.default_plugins` tells.
:mod:`scheduler.volumes.domain.domain` and the options read them.
"""

FILTERS = ("IgnoreAttemptedHostsFilter", "AvailabilityZoneFilter", "CapacityFilter", "CapabilitiesFilter")
WEIGHERS = ("CapacityWeigher",)
