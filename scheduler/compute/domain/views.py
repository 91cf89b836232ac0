# SPDX-License-Identifier: Apache-2.0
"""Attributes of a host state that are computed from several columns, in nova's form."""

from __future__ import annotations

import datetime
import types
from collections.abc import Callable, Mapping
from typing import Any

from fleet.hardware.node import Hardware
from fleet.json_codec import JSONMapping, JSONObject
from scheduler.compute.domain.hardware import HARDWARE
from scheduler.compute.domain.host_state import Capabilities
from scheduler.engine.hosts.candidates import Candidates

View = Callable[[Candidates, int], Any]


def _service(hosts: Candidates, row: int) -> JSONMapping:
    return types.MappingProxyType(
        {
            "host": hosts.key(row)[0],
            "binary": "fleet-compute",
            "topic": "compute",
            "disabled": hosts.value(row, "disabled"),
            "disabled_reason": hosts.disabled_reason(row),
            "forced_down": hosts.value(row, "forced_down"),
            "last_seen_up": _time(hosts.value(row, "last_seen_up")),
        }
    )


def _updated(hosts: Candidates, row: int) -> datetime.datetime | None:
    return _time(hosts.value(row, "updated"))


def _time(epoch_s: float) -> datetime.datetime | None:
    """Return naive UTC, as nova does; None for 0, which means never."""
    if not epoch_s:
        return None
    return datetime.datetime.fromtimestamp(epoch_s, datetime.UTC).replace(tzinfo=None)


def _host_ip(hosts: Candidates, row: int) -> str | None:
    found: str | None = hosts.object(row, "host_ip")
    return found


def _numa_topology(hosts: Candidates, row: int) -> JSONObject | None:
    hardware: Hardware | None = hosts.rare(row, HARDWARE)
    return hardware.topology.to_wire() if hardware and hardware.topology else None


def _pci_stats(hosts: Candidates, row: int) -> list[JSONObject] | None:
    hardware: Hardware | None = hosts.rare(row, HARDWARE)
    return [pool.to_wire() for pool in hardware.pools] if hardware and hardware.pools else None


def _capability(name: str) -> View:
    def view(hosts: Candidates, row: int) -> Any:
        return hosts.shared(row, "capabilities").shown(name)

    return view


VIEWS: Mapping[str, View] = {
    "aggregates": Candidates.aggregates,
    "instances": Candidates.instances,
    "service": _service,
    "updated": _updated,
    "host_ip": _host_ip,
    "numa_topology": _numa_topology,
    "pci_stats": _pci_stats,
    **{name: _capability(name) for name in Capabilities._fields},
}
