# SPDX-License-Identifier: Apache-2.0
"""Functions and classes of nova that its filters and weighers call, made anew over ours.

Plugins of nova call them by :mod:`scheduler.compat.nova_names`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from oslo_log import log as logging

from scheduler.compute.domain import aggregate_metadata, guest_kinds
from scheduler.compute.domain.request_faces import Record

LOG = logging.getLogger(__name__)


# -- nova.scheduler.filters.utils -----------------------------------------------------------------------------------------


def aggregate_values_from_key(host_state: Any, key_name: str) -> set[str]:
    """Return the distinct values of a metadata key of the host's aggregates."""
    return aggregate_metadata.values_from_key(host_state.aggregates, key_name)


def aggregate_metadata_get_by_host(host_state: Any, key: str | None = None) -> dict[str, set[str]]:
    """Return the metadata of the host's aggregates, values split at commas; of those with ``key`` only, if it is given."""
    chosen = [each for each in host_state.aggregates if key is None or key in each.metadata]
    return aggregate_metadata.all_values(chosen)


def validate_num_values(
    vals: Collection[str],
    default: Any = None,
    cast_to: Callable[[str], Any] = int,
    based_on: Callable[[Iterable[Any]], Any] = min,
) -> Any:
    """Return the smallest value as a number, or what ``based_on`` chooses. :raises ValueError: one is no number"""
    return based_on(map(cast_to, vals)) if vals else default


def instance_uuids_overlap(host_state: Any, uuids: str | Iterable[str]) -> bool:
    """Return True if any of the instances is on the host."""
    wanted = [uuids] if isinstance(uuids, str) else uuids
    return any(uuid in host_state.instances for uuid in wanted)


def other_types_on_host(host_state: Any, instance_type_id: int | None) -> bool:
    """Return True if the host has an instance of another flavor."""
    return any(each.is_of_other_type(instance_type_id) for each in host_state.instances.values())


# -- nova.scheduler.utils -------------------------------------------------------------------------------------------------


def parse_options(
    opts: Iterable[str], sep: str = "=", converter: Callable[[str], Any] = str, name: str = ""
) -> list[tuple[str, Any]]:
    """Return (key, value) of each option that reads ``key=value``. Others are logged and left out."""
    found, wrong = [], []
    for option in opts:
        key, mark, text = option.partition(sep)
        try:
            value = converter(text)
        except ValueError:
            value = None
        if key and mark and value is not None:
            found.append((key, value))
        else:
            wrong.append(option)
    if wrong:
        LOG.warning("Option %s: these elements cannot be read, and are left out: %s", name, ", ".join(wrong))
    return found


def get_weight_multiplier(host_state: Any, multiplier_name: str, multiplier_config: float) -> float:
    """Return the smallest multiplier that the host's aggregates set; the configured one if none does."""
    return aggregate_metadata.smallest_number(host_state.aggregates, multiplier_name, multiplier_config)


def request_is_rebuild(spec_obj: Any) -> bool:
    """Return False: filters that do not concern a new image are left out of its check before they are called."""
    return False


# -- nova.servicegroup ----------------------------------------------------------------------------------------------------


def servicegroup_api(conf: Any) -> type:
    class API:
        """Tells whether a compute service is alive."""

        def __init__(self, *args: Any, **more: Any) -> None:
            pass

        def service_is_up(self, member: Mapping[str, Any]) -> bool:
            """:param member: ``service`` of a host state"""
            silence_s: float = member["silence_s"]
            return not member["forced_down"] and silence_s <= conf.service_down_time

    return API


# -- nova.context, nova.objects -------------------------------------------------------------------------------------------


def get_admin_context(*args: Any, **more: Any) -> Record:
    return Record(is_admin=True, project_id=None, user_id=None)


@contextlib.contextmanager
def target_cell(context: Any, cell_mapping: Any) -> Iterator[Any]:
    """Yield the context: the instances of a host are at hand, whatever cell it is in."""
    yield context


class CellMapping:
    @staticmethod
    def get_by_uuid(context: Any, uuid: str | None) -> Record:
        return Record(uuid=uuid)


class InstanceList(list[Record]):
    """The instances of a host with their images' properties, as ``image_props_weight_multiplier`` has them read."""

    def __init__(self, context: Any = None, objects: Iterable[Any] = ()) -> None:
        super().__init__(
            Record(uuid=each.uuid, image_meta=Record(properties=Record(**dict(each.image_properties))))
            for each in objects
        )

    def fill_metadata(self) -> None:
        """Do nothing: all is there."""


# -- nova.objects.fields --------------------------------------------------------------------------------------------------


def names_of(parse: Callable[[str], str]) -> type:
    class Names:
        """The names that image properties may have."""

        @staticmethod
        def canonicalize(name: str | None) -> str | None:
            """Return the name that hosts report. :raises ValueError: there is no such name"""
            return None if name is None else parse(name)

    return Names


Architecture, HVType, VMMode = map(
    names_of, (guest_kinds.architecture, guest_kinds.hypervisor_type, guest_kinds.vm_mode)
)


class CPUAllocationPolicy:
    DEDICATED, SHARED, MIXED = "dedicated", "shared", "mixed"


class CPUThreadAllocationPolicy:
    PREFER, ISOLATE, REQUIRE = "prefer", "isolate", "require"
