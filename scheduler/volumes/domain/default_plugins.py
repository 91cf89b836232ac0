# SPDX-License-Identifier: Apache-2.0
"""The filters and weighers that a scheduler of volumes has without configuration.

They are names and not classes, so that the options, which each daemon reads, import no numpy.
:mod:`scheduler.volumes.domain.domain` and :mod:`scheduler.volumes.conf` read them.
"""

FILTERS = ("IgnoreAttemptedHostsFilter", "AvailabilityZoneFilter", "CapacityFilter", "CapabilitiesFilter")
WEIGHERS = ("CapacityWeigher",)
