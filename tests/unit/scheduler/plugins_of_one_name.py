# SPDX-License-Identifier: Apache-2.0
"""Filters and weighers that have the names of others."""

from __future__ import annotations

from scheduler import filters, weights
from scheduler.volumes import filters as volume_filters
from scheduler.volumes import weights as volume_weights


class SpecifiedHostFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        return False


class RamFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        return True


class ExactRamFilter(filters.BaseHostFilter):
    """As a built-in filter that is not one of the default filters."""

    def host_passes(self, host_state, filter_properties):
        return True


class RAMWeigher(weights.BaseHostWeigher):
    def _weigh_object(self, host_state, weight_properties):
        return 1.0


class CapacityFilter(volume_filters.BaseBackendFilter):
    def backend_passes(self, backend_state, filter_properties):
        return True


class CapacityWeigher(volume_weights.BaseHostWeigher):
    def _weigh_object(self, pool_state, weight_properties):
        return 1.0
