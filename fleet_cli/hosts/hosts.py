# SPDX-License-Identifier: Apache-2.0
"""``fleet host``: capacity and usage of hosts."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fleet import capacity
from fleet.client.connection import Record
from fleet.objects import host_report
from fleet_cli.base import command, listing

COLUMNS = (
    "host",
    "node",
    "state",
    "status",
    "zone",
    "driver",
    "vcpus",
    "vcpus_used",
    "vcpus_limit",
    "memory_mb",
    "memory_mb_used",
    "memory_mb_limit",
    "local_gb",
    "local_gb_used",
    "local_gb_limit",
    "running_vms",
)


def simulated(drivers: Mapping[str, str | None]) -> str:
    """Return the remark on simulated hosts; empty if there are none. The argument maps hosts to drivers."""
    found = [host for host, driver in drivers.items() if driver == host_report.SIMULATED]
    return f"{len(found)} of {len(drivers)} hosts are SIMULATED (driver fake): no instance really runs there." * bool(
        found
    )


#: Column of the table → resource, and how many of its units are one of the column's.
_SHOWN = {"vcpus": ("vcpus", 1), "memory_gb": ("memory_mb", 1024), "local_gb": ("local_gb", 1)}
#: Resource → what is reserved of it, and the ratio up to which it is given away.
_LIMITS = {
    "vcpus": ("reserved_vcpus", "cpu_allocation_ratio"),
    "memory_mb": ("reserved_memory_mb", "ram_allocation_ratio"),
    "local_gb": ("reserved_disk_gb", "disk_allocation_ratio"),
}


def limit(node: Record, resource: str) -> float:
    """Return up to what ``RESOURCE_used`` of a node may grow."""
    reserved, ratio = (node.get(name) for name in _LIMITS[resource])
    return capacity.limit(float(node.get(resource) or 0), float(reserved or 0), 1.0 if ratio is None else float(ratio))


def _against_limit(node: Record, resource: str, unit: int) -> str:
    return f"{(node.get(f'{resource}_used') or 0) / unit:.5g}/{limit(node, resource) / unit:.5g}"


def row(node: Record) -> dict[str, Any]:
    """Return a node of a host as one row."""
    limits = {f"{name}_limit": round(limit(node, name), 3) for name in _LIMITS}
    return {**node, **limits, "driver": node.get("hypervisor_type")}


class ListHosts(listing.List):
    """List the hosts with what is used of each resource, and up to what it may be used: the limit, not what is physical."""

    things = "hosts"
    brief = ("host", "state", "zone", "driver", "vcpus", "memory_gb", "local_gb", "vms")
    whole: Sequence[str] = COLUMNS

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        rows = [row(node) for node in self.conductor.operator.list_hosts()]
        listing.remark(simulated({each["host"]: each["driver"] for each in rows}))
        return rows

    def columns(self, found: Sequence[Record]) -> Sequence[str]:
        """The driver has a column only if it is not the usual one."""
        usual = all(each["driver"] == "local" for each in found)
        return [name for name in self.brief if name != "driver" or not usual]

    def shortened(self, record: Record) -> Record:
        host, node = record["host"], record["node"]
        state = record["state"] if record["status"] == "enabled" else f"{record['state']}, {record['status']}"
        used = {name: _against_limit(record, column, unit) for name, (column, unit) in _SHOWN.items()}
        shown = {"host": host if node == host else f"{host}:{node}", "state": state, "vms": record.get("running_vms")}
        return {**record, **used, **shown}


class ShowHost(ListHosts):
    """Show one host: a row for each of its nodes, with the bridges that guests may be plugged into if it reports them."""

    whole = (*COLUMNS, "bridges")
    arguments = (command.HOST,)

    def columns(self, found: Sequence[Record]) -> Sequence[str]:
        reported = any(each.get("bridges") is not None for each in found)
        return [*super().columns(found), *(["bridges"] if reported else [])]

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        return map(row, self.conductor.operator.show_host(name=parsed_args.host)["nodes"])


class DeleteHost(command.Command):
    """Remove the records of a host that is gone; refused while its agent is up, or an instance is on it."""

    arguments = (command.HOST,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.delete_host(host=parsed_args.host)
