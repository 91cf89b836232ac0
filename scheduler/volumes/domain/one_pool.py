# SPDX-License-Identifier: Apache-2.0
"""Convert the arguments of cinder's form of a plugin (a pool state and a dict) to those of the column form.

The base classes of filters and weighers call it for plugins of others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy

from fleet.json_codec import JSONMapping
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.inventory import Inventory
from scheduler.engine.hosts.table import PRESENT
from scheduler.engine.prepared_request import PARSED
from scheduler.volumes.domain import capabilities, columns
from scheduler.volumes.domain.domain import POOLS
from scheduler.volumes.domain.pool_state import PoolState, RowState, key_of
from scheduler.volumes.domain.request import VolumeRequest


def candidates(state: PoolState, clock: Callable[[], float] = time.time) -> Candidates:
    """Return candidates of one pool. A row of a request keeps what the request has picked."""
    if isinstance(state, RowState):
        return state.source.subset(numpy.array([state.row]))
    inventory = Inventory(POOLS)
    table = inventory.table
    row = table.add(key_of(state.host))
    numbers = columns.numbers(_as_row(state))
    table.write(row, {**numbers, PRESENT: True, "last_seen_up": clock()})
    report = capabilities.split(state.capabilities)
    table.share(row, "kind", report.kind)
    table.share(row, "availability_zone", state.service.get("availability_zone"))
    table.write_object(row, "own", report.own)
    return Candidates(inventory, clock())


def request(properties: JSONMapping | VolumeRequest) -> VolumeRequest:
    """Return the request that ``filter_properties`` hold: a whole one, or the part that a test is about.

    :raises errors.InvalidInput: naming the field of what is there and wrong
    """
    known = properties if isinstance(properties, VolumeRequest) else properties.get(PARSED)
    if isinstance(known, VolumeRequest):
        return known
    assert not isinstance(properties, VolumeRequest)
    spec = properties.get("request_spec") or {}
    wanted = spec.get("volume_properties") or spec.get("resource_properties") or {}
    complete = {
        "volume_type": properties.get("volume_type") or properties.get("resource_type"),
        **spec,
        "volume_properties": {"size": properties.get("size") or 0, **wanted},
    }
    return VolumeRequest.from_wire(complete, properties)


def _as_row(state: PoolState) -> SimpleNamespace:
    """Return the numbers of a pool state as a row of the database has them."""
    return SimpleNamespace(
        total_capacity_gb=_number(state.total_capacity_gb),
        free_capacity_gb=_number(state.free_capacity_gb),
        allocated_capacity_gb=state.allocated_capacity_gb,
        provisioned_capacity_gb=state.provisioned_capacity_gb,
        reserved_percentage=state.reserved_percentage,
        total_volumes=state.capabilities.get("total_volumes", 0),
        thin_provisioning_support=state.thin_provisioning_support,
        max_over_subscription_ratio=state.max_over_subscription_ratio,
        updated_at=state.updated,
    )


def _number(capacity: Any) -> float | None:
    return None if isinstance(capacity, str) else capacity or 0
