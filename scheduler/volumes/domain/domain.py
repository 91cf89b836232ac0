# SPDX-License-Identifier: Apache-2.0
"""The domain of volumes, as one value for the engine and the cache: a place is a storage pool, keyed (backend, pool).

:mod:`scheduler.volumes.drivers.loading` and :mod:`scheduler.volumes.drivers.host_manager` pass it to them.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleet.json_codec import JSONMapping
from scheduler.engine.hosts.consumption import Consumption
from scheduler.engine.hosts.domain import Defaults, Domain, Held, Layout, Requests, Rows, Words
from scheduler.state.liveness import is_up, steady_until
from scheduler.volumes.domain import default_plugins
from scheduler.volumes.domain.capabilities import Kind
from scheduler.volumes.domain.columns import NUMBERS, OFTEN_UNIFORM, read_row
from scheduler.volumes.domain.pool_state import ATTRIBUTES, VIEWS, name_of, state_of
from scheduler.volumes.domain.request import VolumeRequest, request_key
from scheduler.volumes.domain.tracked_volume import has_moved, is_gone, is_over, picked, read_placed


def consumption(request: VolumeRequest) -> Consumption:
    """Return the space that a volume takes of its pool. An existing volume that does not grow takes none."""
    grows = request.new_size_gb is not None
    return Consumption(_taken(request.requested_gb, 0 if grows else 1))


def held(size_gb: float) -> Held:
    """Return the space that a volume holds on its pool."""
    return Held(_taken(size_gb, 1), {})


def _taken(size_gb: float, volumes: int) -> Mapping[str, float]:
    return {
        "allocated_capacity_gb": size_gb,
        "provisioned_capacity_gb": size_gb,
        "free_capacity_gb": -size_gb,
        "thick_room_gb": -size_gb,
        "thin_room_gb": -size_gb,
        "total_volumes": volumes,
    }


def properties(request: VolumeRequest) -> JSONMapping:
    """Return the keys of ``filter_properties`` that cinder's scheduler adds for plugins of one pool at a time."""
    wanted, type_ = request.properties, request.request_spec.get("volume_type") or {}
    return {
        "request_spec": {**request.request_spec, "resource_properties": request.request_spec.get("volume_properties")},
        "volume_type": type_,
        "resource_type": type_,
        "size": wanted.size,
        "availability_zone": wanted.availability_zone,
        "user_id": wanted.user_id,
        "metadata": wanted.metadata,
        "qos_specs": wanted.qos_specs,
    }


POOLS = Domain.of(
    name="volume",
    layout=Layout(
        columns=NUMBERS,
        often_uniform=OFTEN_UNIFORM,
        shared={"aggregates": (), "kind": Kind({}), "availability_zone": ""},
        objects=("own",),
        empty={},
        attributes=ATTRIBUTES,
        views=VIEWS,
        host_state=state_of,
    ),
    rows=Rows(
        read_row=read_row,
        read_placed=read_placed,
        is_gone=is_gone,
        is_over=is_over,
        has_moved=has_moved,
        is_up=is_up,
        steady_until=steady_until,
    ),
    requests=Requests(
        placed=picked,
        consumption=consumption,
        held=held,
        properties=properties,
        request_key=request_key,
    ),
    defaults=Defaults(
        normalisation="widen",
        plugin_life="request",
        filters=default_plugins.FILTERS,
        weighers=default_plugins.WEIGHERS,
    ),
    words=Words(
        place="pool",
        node="pool",
        counted=("pools", "volumes", "volume_bookings"),
        thing="volume",
        place_name=lambda key: f"pool {name_of(key)}",
    ),
)
