# SPDX-License-Identifier: Apache-2.0
"""The aliases of nova's modules. :mod:`scheduler.compat` installs them when a plugin imports nova."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet import errors
from scheduler.compat import nova_hardware, nova_helpers
from scheduler.compat.configuration import PluginConf
from scheduler.compute import filters, weights
from scheduler.compute.domain.host_state import HostState
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.compute.filters import extra_specs_ops
from scheduler.compute.weights import handler
from scheduler.engine.plugins import BaseHostWeigher, WeighedHost

#: The files in which nova's releases from Liberty on have the filters and weighers that are here too.
_FILTERS = (
    "affinity_filter aggregate_image_properties_isolation aggregate_instance_extra_specs aggregate_multitenancy_isolation "
    "all_hosts_filter availability_zone_filter compute_capabilities_filter compute_filter core_filter disk_filter "
    "exact_core_filter exact_disk_filter exact_ram_filter image_props_filter io_ops_filter isolated_hosts_filter "
    "json_filter metrics_filter num_instances_filter numa_topology_filter pci_passthrough_filter ram_filter retry_filter "
    "trusted_filter type_filter"
)
_WEIGHERS = "affinity compute cpu disk hypervisor_version image_props io_ops metrics num_instances pci ram"


class NovaException(Exception):
    """Base of nova's exceptions: ``msg_fmt`` with the given values."""

    msg_fmt = "An unknown exception occurred."

    def __init__(self, message: str | None = None, **kwargs: Any) -> None:
        self.kwargs = kwargs
        super().__init__(message or self.msg_fmt % kwargs)


class ComputeHostMetricNotFound(NovaException):
    msg_fmt = "Metric %(name)s was not found on the compute host node %(host)s.%(node)s."


class _NotFound(NovaException):
    msg_fmt = "Not found: %(uuid)s."


class HostFilter(filters.BaseHostFilter):
    """nova's BaseHostFilter: only the truth of the answer counts."""

    def _filter_one(self, obj: Any, filter_properties: dict[str, Any]) -> bool:
        return bool(super()._filter_one(obj, filter_properties))


def _same(text: str) -> str:
    """Return the text: plugins are not translated."""
    return text


def aliases(conf: PluginConf) -> Mapping[str, Mapping[str, Any]]:
    """Return the content of each module by its name. A module without content is only there for those below it."""
    built_in_filters = {cls.__name__: cls for cls in filters.CLASSES}
    built_in_weighers = {cls.__name__: cls for cls in weights.CLASSES}
    translation = dict.fromkeys(["_", "_LC", "_LE", "_LI", "_LW"], _same)
    return {
        "nova": {},
        "nova.conf": {"CONF": conf},
        "nova.config": {"CONF": conf},
        "nova.context": {
            "get_admin_context": nova_helpers.get_admin_context,
            "target_cell": nova_helpers.target_cell,
        },
        "nova.exception": {
            "CellMappingNotFound": _NotFound,
            "ComputeHostMetricNotFound": ComputeHostMetricNotFound,
            "InstanceNotFound": _NotFound,
            "NoValidHost": errors.NoValidHost,
            "NotFound": _NotFound,
            "NovaException": NovaException,
        },
        "nova.filters": {"BaseFilter": HostFilter, "BaseFilterHandler": filters.HostFilterHandler},
        "nova.i18n": translation,
        "nova.objects": {
            "CellMapping": nova_helpers.CellMapping,
            "InstanceList": nova_helpers.InstanceList,
            "NUMATopologyLimits": nova_hardware.NUMATopologyLimits,
        },
        "nova.objects.fields": {
            "Architecture": nova_helpers.Architecture,
            "CPUAllocationPolicy": nova_helpers.CPUAllocationPolicy,
            "CPUThreadAllocationPolicy": nova_helpers.CPUThreadAllocationPolicy,
            "HVType": nova_helpers.HVType,
            "VMMode": nova_helpers.VMMode,
        },
        "nova.scheduler": {},
        "nova.scheduler.filters": {
            "BaseHostFilter": HostFilter,
            "CandidateFilterMixin": nova_hardware.CandidateFilterMixin,
            "HostFilterHandler": filters.HostFilterHandler,
            "all_filters": filters.all_filters,
        },
        "nova.scheduler.filters.extra_specs_ops": {"match": extra_specs_ops.match},
        "nova.scheduler.filters.utils": {
            name: getattr(nova_helpers, name)
            for name in (
                "aggregate_metadata_get_by_host",
                "aggregate_values_from_key",
                "instance_uuids_overlap",
                "other_types_on_host",
                "validate_num_values",
            )
        },
        **{f"nova.scheduler.filters.{name}": built_in_filters for name in _FILTERS.split()},
        "nova.scheduler.host_manager": {"HostManager": HostManager, "HostState": HostState},
        "nova.scheduler.utils": {
            "get_weight_multiplier": nova_helpers.get_weight_multiplier,
            "parse_options": nova_helpers.parse_options,
            "request_is_rebuild": nova_helpers.request_is_rebuild,
        },
        "nova.scheduler.weights": {
            "BaseHostWeigher": weights.BaseHostWeigher,
            "HostWeightHandler": handler.HostWeightHandler,
            "WeighedHost": WeighedHost,
            "all_weighers": weights.all_weighers,
        },
        **{f"nova.scheduler.weights.{name}": built_in_weighers for name in _WEIGHERS.split()},
        "nova.servicegroup": {"API": nova_helpers.servicegroup_api(conf)},
        "nova.virt": {},
        "nova.virt.hardware": {
            "host_topology_and_format_from_host": nova_hardware.host_topology_and_format_from_host,
            "numa_fit_instance_to_host": nova_hardware.numa_fit_instance_to_host,
        },
        "nova.weights": {
            "BaseWeightHandler": handler.HostWeightHandler,
            "BaseWeigher": BaseHostWeigher,
            "WeighedObject": WeighedHost,
            "normalize": handler.normalize,
        },
    }
