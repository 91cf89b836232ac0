# SPDX-License-Identifier: Apache-2.0
"""The aliases of cinder's modules. :mod:`scheduler.compat` installs them when a plugin imports cinder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fleet import errors
from fleet.objects import location
from fleet.pool_capacity import Space
from scheduler.compat import pools_at_hand
from scheduler.compat.configuration import PluginConf
from scheduler.compute.weights import handler
from scheduler.engine.plugins import WeighedHost
from scheduler.volumes import filters, weights
from scheduler.volumes.domain import equation
from scheduler.volumes.filters import extra_specs

#: The files in which cinder's releases have the filters and weighers that are here too.
_FILTERS = (
    "affinity_filter availability_zone_filter capabilities_filter capacity_filter driver_filter "
    "ignore_attempted_hosts_filter instance_locality_filter json_filter"
)
_WEIGHERS = ("capacity", "chance", "goodness", "volume_number")


class VolumeAttachStatus:
    ATTACHED, DETACHED, ATTACHING, RESERVED = "attached", "detached", "attaching", "reserved"


class CinderException(Exception):
    """Base of cinder's exceptions: ``message`` with the given values."""

    message = "An unknown exception occurred."

    def __init__(self, message: str | None = None, **kwargs: Any) -> None:
        super().__init__(message or self.message % kwargs)


class InvalidUUID(CinderException):
    message = "Expected a uuid but received %(uuid)s."


def calculate_capacity_factors(
    total_capacity: float,
    free_capacity: float,
    provisioned_capacity: float,
    thin_provisioning_support: bool,
    max_over_subscription_ratio: float,
    reserved_percentage: int,
    thin: bool,
) -> dict[str, Any]:
    """Return the capacities of a pool in GiB, by cinder's names of them (:mod:`fleet.pool_capacity`)."""
    total, is_thin = float(total_capacity), bool(thin and thin_provisioning_support)
    ratio = str(max_over_subscription_ratio)
    space = Space(total, free_capacity, provisioned_capacity, reserved_percentage, thin_provisioning_support, ratio)
    factors = space.factors(thin)
    reserved = math.floor(total * reserved_percentage / 100)
    return {
        "total_capacity": total,
        "free_capacity": free_capacity,
        "reserved_capacity": reserved,
        "total_reserved_available_capacity": round(total - reserved, 2),
        "max_over_subscription_ratio": max_over_subscription_ratio if is_thin else None,
        "total_available_capacity": factors.total_available_gb,
        "provisioned_capacity": provisioned_capacity,
        "calculated_free_capacity": round(factors.total_available_gb - provisioned_capacity, 2),
        "virtual_free_capacity": factors.virtual_free_gb,
        "free_percent": factors.free_percent,
        "provisioned_ratio": factors.provisioned_ratio,
        "provisioned_type": "thin" if is_thin else "thick",
    }


def calculate_virtual_free_capacity(*args: Any, **more: Any) -> float:
    """Return the GiB that a new volume may have. The arguments are those of :func:`calculate_capacity_factors`."""
    found: float = calculate_capacity_factors(*args, **more)["virtual_free_capacity"]
    return found


def match(value: Any, req: str | None) -> bool:
    """Return True if a reported value meets the requirement of an extra spec."""
    return extra_specs.requirement(req)(value)


def evaluate(expression: str, **kwargs: Mapping[str, Any]) -> Any:
    """Return the value of an equation. :raises equation.EquationError:"""
    return equation.parse(expression, as_cinder=True).value(kwargs)


def aliases(conf: PluginConf) -> Mapping[str, Mapping[str, Any]]:
    """Return the content of each module by its name. A module without content is only there for those below it."""
    base_filters = {
        "BaseBackendFilter": pools_at_hand.BackendFilter,
        "BaseHostFilter": pools_at_hand.BackendFilter,
    }
    base_weights = {"WeighedHost": WeighedHost, "BaseHostWeigher": pools_at_hand.HostWeigher}
    return {
        "cinder": {},
        "cinder.compute": {},
        "cinder.compute.nova": {"API": pools_at_hand.ComputeAPI},
        "cinder.db": {},
        "cinder.db.api": {"volume_data_get_for_host": pools_at_hand.volume_data_get_for_host},
        "cinder.exception": {
            "CinderException": CinderException,
            "EvaluatorParseException": equation.EquationError,
            "InvalidUUID": InvalidUUID,
            "NoValidBackend": errors.NoValidHost,
        },
        "cinder.i18n": {"_": str},
        "cinder.objects": {},
        "cinder.objects.fields": {"VolumeAttachStatus": VolumeAttachStatus},
        "cinder.scheduler": {},
        "cinder.scheduler.base_filter": {"BaseFilter": pools_at_hand.BackendFilter},
        "cinder.scheduler.base_weight": {
            "BaseWeigher": pools_at_hand.HostWeigher,
            "WeighedObject": WeighedHost,
            "normalize": handler.normalize,
        },
        "cinder.scheduler.evaluator": {},
        "cinder.scheduler.evaluator.evaluator": {"evaluate": evaluate},
        "cinder.scheduler.filters": base_filters,
        "cinder.scheduler.filters.extra_specs_ops": {"match": match},
        **{
            f"cinder.scheduler.filters.{name}": {cls.__name__: cls for cls in filters.CLASSES}
            for name in _FILTERS.split()
        },
        "cinder.scheduler.sched_utils": {
            "calculate_capacity_factors": calculate_capacity_factors,
            "calculate_virtual_free_capacity": calculate_virtual_free_capacity,
        },
        "cinder.scheduler.weights": base_weights,
        **{f"cinder.scheduler.weights.{name}": {cls.__name__: cls for cls in weights.CLASSES} for name in _WEIGHERS},
        "cinder.volume": {},
        "cinder.volume.api": {"API": pools_at_hand.VolumeAPI},
        "cinder.volume.volume_utils": {"extract_host": location.extract_host},
    }
