# SPDX-License-Identifier: Apache-2.0
"""``fleet host``: capacity and usage of hosts."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
    "memory_mb",
    "memory_mb_used",
    "local_gb",
    "local_gb_used",
    "running_vms",
)


def simulated(drivers: Mapping[str, str | None]) -> str:
    """Return the remark on simulated hosts; empty if there are none. The argument maps hosts to drivers."""
    found = [host for host, driver in drivers.items() if driver == host_report.SIMULATED]
    return f"{len(found)} of {len(drivers)} hosts are SIMULATED (driver fake): no instance really runs there." * bool(
        found
    )


def row(node: Record) -> dict[str, Any]:
    """Return a node of a host as one row."""
    return {**node, "driver": node.get("hypervisor_type")}


class ListHosts(listing.List):
    """List the hosts with their capacity and usage."""

    things = "hosts"
    brief = ("host", "state", "zone", "driver", "vcpus", "memory_gb", "local_gb", "vms")
    whole = COLUMNS

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
        used = {name: f"{record.get(f'{name}_used')}/{record.get(name)}" for name in ("vcpus", "local_gb")}
        used["memory_gb"] = "/".join(
            f"{(record.get(name) or 0) / 1024:.4g}" for name in ("memory_mb_used", "memory_mb")
        )
        shown = {"host": host if node == host else f"{host}:{node}", "state": state, "vms": record.get("running_vms")}
        return {**record, **used, **shown}


class ShowHost(ListHosts):
    """Show one host: a row for each of its nodes."""

    arguments = (command.HOST,)

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        return map(row, self.conductor.operator.show_host(name=parsed_args.host)["nodes"])


class DeleteHost(command.Command):
    """Remove the records of a host that is gone; refused while its agent is up, or an instance is on it."""

    arguments = (command.HOST,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.delete_host(host=parsed_args.host)
