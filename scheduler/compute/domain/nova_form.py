# SPDX-License-Identifier: Apache-2.0
"""Convert the arguments of nova's form of a plugin (a host state and a dict) to those of the column form.

The base classes of filters and weighers call it for plugins of others.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy

from fleet import clock as clocks
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import Aggregate, RequestSpec
from scheduler.compute.domain import columns
from scheduler.compute.domain.hardware import DEFAULT_RATIOS, HARDWARE, hardware, hardware_numbers
from scheduler.compute.domain.host_state import HostState, RowState
from scheduler.compute.domain.tracked_instance import TrackedInstance
from scheduler.compute.domain.virtual_machines import VIRTUAL_MACHINES
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.inventory import Inventory
from scheduler.engine.hosts.table import PRESENT
from scheduler.engine.prepared_request import PARSED

_HEARTBEATS = ("last_seen_up", "updated_at", "created_at")
#: On the wire neither size of a flavor may be left out nor be 0.
_SMALLEST = {"vcpus": 1, "memory_mb": 1}


def candidates(state: HostState, clock: Callable[[], float] = time.time) -> Candidates:
    """Return candidates of one host. A row of a request keeps what the request has picked.

    :param clock: gives the time in epoch seconds at which a host that was made by hand is judged
    """
    if isinstance(state, RowState) and isinstance(state.source, Candidates):
        return state.source.subset(numpy.array([state.row]))
    return Candidates(_inventory(state), clock())


def request(properties: JSONMapping | RequestSpec) -> RequestSpec:
    """Return the request that ``filter_properties`` hold: a whole one, or the part that a test is about.

    A flavor size that is left out is 0: nothing of it is requested.

    :raises errors.InvalidInput: naming the field of what is there and wrong
    """
    known = properties if isinstance(properties, RequestSpec) else properties.get(PARSED)
    if isinstance(known, RequestSpec):
        return known
    assert not isinstance(properties, RequestSpec)
    spec = properties.get("request_spec") or {}
    flavor = properties.get("instance_type") or spec.get("instance_type") or {}
    complete = {"num_instances": 1, **spec, "instance_type": {**_SMALLEST, **flavor}}
    parsed = RequestSpec.from_wire(complete, properties)
    sizes: JSONObject = {name: 0 for name in _SMALLEST if name not in flavor}
    return dataclasses.replace(parsed, flavor=dataclasses.replace(parsed.flavor, **sizes))


def _inventory(state: HostState) -> Inventory:
    inventory = Inventory(VIRTUAL_MACHINES)
    table = inventory.table
    row = table.add((state.host, state.nodename))
    table.write(row, {PRESENT: True, **_numbers(state)})
    table.write_object(row, "host_ip", state.host_ip)
    table.share(row, "capabilities", columns.capabilities(state))
    table.share(row, "bridges", columns.bridges(state.stats))
    table.share(row, "labels", columns.labels(state.stats, None))
    for name, value in columns.rare(state).items():
        table.write_rare(row, name, value)
    table.write_rare(row, HARDWARE, hardware(state))
    inventory.aggregates = dict(enumerate(_aggregates(state.aggregates), 1))
    table.share(row, "aggregates", tuple(inventory.aggregates))
    for uuid, instance in state.instances.items():
        inventory.place(_tracked(uuid, instance, state.host))
    return inventory


def _numbers(state: HostState) -> dict[str, float]:
    values = {name: getattr(state, name, 0) or 0 for name in columns.NUMBERS}
    for resource, ratio in DEFAULT_RATIOS.items():
        name = f"{resource}_allocation_ratio"
        values[name] = values[name] or ratio
    service = {name: _of_service(state, name) for name in (*_HEARTBEATS, "disabled", "forced_down")}
    heartbeats = [service[name] for name in _HEARTBEATS if service[name]]
    values["last_seen_up"] = _epoch_s(heartbeats[0]) if heartbeats else 0.0
    values["disabled"] = bool(service["disabled"])
    values["forced_down"] = bool(service["forced_down"])
    values["updated"] = _epoch_s(state.updated) if state.updated else 0.0
    values.update(hardware_numbers(hardware(state)))
    values.update(columns.ceilings(values))
    return values


def _of_service(state: HostState, name: str) -> Any:
    """Return a value of the service's record (a dict or an object), or of the host state itself."""
    service = state.service
    found = service.get(name) if isinstance(service, Mapping) else getattr(service, name, None)
    return found if found is not None else getattr(state, name, None)


def _epoch_s(time_: datetime | str | float) -> float:
    """Convert epoch seconds, ISO 8601 text or a datetime to epoch seconds. A time without a zone is UTC."""
    if isinstance(time_, int | float):
        return float(time_)
    time = datetime.fromisoformat(time_) if isinstance(time_, str) else time_
    return clocks.epoch_s(time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time)


def _aggregates(aggregates: Iterable[Any]) -> list[Aggregate]:
    """Convert objects with ``metadata``, as nova's tests use them."""
    return [
        Aggregate(number, f"aggregate{number}", metadata=dict(each.metadata)) for number, each in enumerate(aggregates)
    ]


def _tracked(uuid: str, instance: object, host: str) -> TrackedInstance:
    if isinstance(instance, TrackedInstance):
        return instance
    type_id = getattr(instance, "instance_type_id", None)
    return TrackedInstance(uuid, host, instance_type_id=type_id, project_id=getattr(instance, "project_id", None))
