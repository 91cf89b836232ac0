# SPDX-License-Identifier: Apache-2.0
"""``fleet host``: capacity and usage of hosts. Called by :mod:`fleet_cli.hosts.services`."""

from __future__ import annotations

import argparse
import collections
from collections.abc import Iterable, Mapping, Sequence

from fleet import capacity
from fleet.client import pages
from fleet.client.connection import Record
from fleet.json_codec import JSONObject
from fleet.objects import host_report
from fleet_cli.base import command, listing
from fleet_cli.hosts import tree

COLUMNS = (
    "host",
    "node",
    "state",
    "status",
    "zone",
    "labels",
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


def _against_limit(nodes: Sequence[Record], resource: str, unit: int) -> str:
    used, most = sum(node.get(f"{resource}_used") or 0 for node in nodes), sum(limit(node, resource) for node in nodes)
    return "/".join(capacity.shown(amount / unit, digits=5) for amount in (used, most))


def _sums(nodes: Sequence[Record]) -> JSONObject:
    used = {name: _against_limit(nodes, column, unit) for name, (column, unit) in _SHOWN.items()}
    return {**used, "vms": sum(node.get("running_vms") or 0 for node in nodes)}


def _state(node: Record) -> str:
    return node["state"] if node["status"] == "enabled" else f"{node['state']}, {node['status']}"


def _states(nodes: Sequence[Record]) -> str:
    """The state of one host, or how many of several are in which."""
    counts = collections.Counter(_state(node) for node in nodes)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{number} {state}" for state, number in sorted(counts.items()))


def row(node: Record) -> JSONObject:
    """Return a node of a host as one row."""
    limits = {f"{name}_limit": round(limit(node, name), 3) for name in _LIMITS}
    return {**node, **limits, "driver": node.get("hypervisor_type")}


TREE_COLUMNS = ("tree", "hosts", "state", "vcpus", "memory_gb", "local_gb", "vms")


class _Hosts(listing.List):
    """Hosts with what is used of each resource, and up to what it may be used: the limit, not what is physical."""

    things = "hosts"
    brief = ("host", "state", "zone", "driver", "vcpus", "memory_gb", "local_gb", "vms")
    whole: Sequence[str] = COLUMNS

    def columns(self, found: Sequence[Record]) -> Sequence[str]:
        """The driver has a column only if it is not the usual one."""
        usual = all(each["driver"] == "local" for each in found)
        return [name for name in self.brief if name != "driver" or not usual]

    def shortened(self, record: Record) -> Record:
        host, node = record["host"], record["node"]
        shown = {"host": host if node == host else f"{host}:{node}", "state": _state(record)}
        return {**record, **_sums([record]), **shown}


class ListHosts(_Hosts):
    """List the hosts with what is used of each resource, and up to what it may be used: the limit, not what is physical."""

    arguments = (
        command.argument(
            "--tree",
            nargs="?",
            const="",
            metavar="LABEL,…",
            help="Show the hosts below their racks, rooms or other labels, with sums. The labels from the root on; "
            "default: all, the one with the fewest values first.",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        if parsed_args.tree is None:
            return super().take_action(parsed_args)
        nodes = pages.hosts(self.conductor.operator)
        labels = tree.labels_of(nodes, [each for each in parsed_args.tree.split(",") if each])
        rows = [
            {"tree": text, "hosts": len(below), "state": _states(below), **_sums(below)}
            for text, below in tree.lines(nodes, labels)
        ]
        return command.table(TREE_COLUMNS, rows)

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        rows = [row(node) for node in pages.hosts(self.conductor.operator)]
        listing.remark(simulated({each["host"]: each["driver"] for each in rows}))
        return rows


class ShowHost(_Hosts):
    """Show one host: a row for each of its nodes, with its labels, and its bridges if it reports them."""

    whole = (*COLUMNS, "bridges")
    arguments = (command.HOST,)

    def columns(self, found: Sequence[Record]) -> Sequence[str]:
        named = [name for name in ("labels", "bridges") if any(each.get(name) for each in found)]
        return [*super().columns(found), *named]

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        return map(row, self.conductor.operator.show_host(name=parsed_args.host)["nodes"])


class DeleteHost(command.Command):
    """Remove the records of a host that is gone; refused while its agent is up, or an instance is on it."""

    arguments = (command.HOST,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.delete_host(host=parsed_args.host)
