# SPDX-License-Identifier: Apache-2.0
"""``fleet server list`` and ``show``: instances. Called by :mod:`fleet_cli.servers.boot`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from fleet import states
from fleet.client import argument_types, faults, pages
from fleet.client.connection import Record
from fleet.json_codec import JSONObject
from fleet_cli.base import command, listing
from fleet_cli.servers import moves

COLUMNS = ("uuid", "name", "status", "task", "power", "host", "node", "flavor", "attempt", "created_at")

_DETAILS = (
    "availability_zone",
    "forced_host",
    "forced_node",
    "group_uuid",
    "scheduler_hints",
    "description",
    "metadata",
    "tags",
    "project_id",
    "reservation_id",
    "request_id",
    "launched_at",
    "deadline",
)


_STATES = (states.ACTIVE, states.BUILDING, states.ERROR, states.RESIZED, *states.AT_REST, states.SHELVED_OFFLOADED)
STATUSES = tuple(state.upper() for state in _STATES)


class ListServers(listing.List):
    """List the instances, oldest first."""

    things = "instances"
    brief = ("uuid", "name", "status", "task", "host", "flavor")
    whole = (*COLUMNS, "project_id")

    arguments = (
        command.argument("--host", help="Only those on this host."),
        command.argument("--status", type=str.upper, choices=STATUSES, help="Only those with this status."),
        command.argument("--name", help="Only those with this name."),
        command.argument("--project", metavar="ID", help="Only those of this project."),
        command.argument("--limit", type=argument_types.positive, metavar="N", help="Only the first N."),
    )

    def nothing(self, parsed_args: argparse.Namespace) -> str:
        """Return a sentence with the filters: other instances may exist."""
        status = f" with status {parsed_args.status}" if parsed_args.status else ""
        host = f" on host {parsed_args.host}" if parsed_args.host else ""
        name = f" named {parsed_args.name}" if parsed_args.name else ""
        project = f" of project {parsed_args.project}" if parsed_args.project else ""
        return f"There are no {self.things}{status}{host}{name}{project}."

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        wanted = {
            "host": parsed_args.host,
            "vm_state": parsed_args.status and parsed_args.status.lower(),
            "name": parsed_args.name,
            "project_id": parsed_args.project,
        }
        filters = {key: value for key, value in wanted.items() if value}
        return map(summary, pages.instances(self.conductor, filters, parsed_args.limit))

    def shortened(self, record: Record) -> Record:
        down = f" ({record['power']})" if record["is_down"] else ""
        return {**record, "flavor": record["flavor"] or "(inline)", "status": f"{record['status']}{down}"}


class ShowServer(command.ShowOne):
    """Show one instance: its host, or why it has none, and every attempt to build it."""

    arguments = (command.SERVER,)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        found = self.conductor.operator.show_instance(name=parsed_args.server)
        instance, flavor = found["instance"], found["instance"].get("flavor") or {}
        fields = {
            **{name: summary(instance).get(name) for name in COLUMNS},
            **{name: flavor.get(name) for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")},
            **{name: instance.get(name) for name in _DETAILS},
            **hardware(instance),
            **moves.shown(found.get("migration")),
            **waiting(found.get("queued"), found.get("waits_for")),
            **volumes(found.get("volumes")),
            **addresses(instance),
            **lock(instance),
        }
        names, rows = command.table(tuple(fields), [fields])
        return (*names, "faults", "attempts"), (
            *rows[0],
            faults.Faults(found["faults"]),
            faults.Attempts(found["events"]),
        )


def waiting(queued: Record | None, host: str | None = None) -> dict[str, str]:
    """Return why the instance waits for room, and since when, or for its host; empty if it does not wait.

    :param host: what it waits for, in words
    """
    if not queued:
        return {"waits_for": host} if host else {}
    shown = {"waits_for": f"{queued['reason']}: {queued['message']}", "waits_since": queued["queued_at"]}
    return {**shown, **({"lacks": queued["lacks"]} if queued.get("lacks") else {})}


def volumes(attached: Iterable[Record] | None) -> dict[str, str]:
    """Return the volumes of the instance in words; empty without any."""
    names = [f"{each['volume_name']} as {each['device']} ({each['status']})" for each in attached or ()]
    return {"volumes": ", ".join(names)} if names else {}


def addresses(instance: Record) -> dict[str, str]:
    """Return the addresses of the instance in words; empty without any."""
    shown = [f"{each['name']}={each['address']}" for each in instance.get("interfaces") or ()]
    return {"addresses": ", ".join(shown)} if shown else {}


def lock(instance: Record) -> dict[str, str]:
    """Return the lock of the instance in words; empty without one."""
    if not instance.get("locked_by"):
        return {}
    reason = instance.get("locked_reason")
    return {"locked": f"by its {instance['locked_by']}" + (f": {reason}" if reason else "")}


def hardware(instance: Record) -> dict[str, str]:
    """Return the NUMA cells and PCI devices of the instance in words; empty for most instances."""
    cells = (instance.get("claimed_numa_topology") or {}).get("cells") or ()
    devices = instance.get("claimed_pci_devices") or ()
    shown = {
        "numa_cells": "; ".join(_cell(cell) for cell in cells),
        "pci_devices": ", ".join(device["address"] for device in devices),
    }
    return {name: text for name, text in shown.items() if text}


def _cell(cell: Record) -> str:
    said = [f"cell {cell['id']}: {len(cell['cpuset'])} vcpus", f"{cell['memory']} MB"]
    pinning = cell.get("cpu_pinning") or {}
    if pinning:
        said.append("CPUs " + ",".join(str(cpu) for cpu in sorted(pinning.values())))
    if cell.get("pagesize"):
        said.append(f"pages of {cell['pagesize']} KiB")
    return ", ".join(said)


def summary(instance: Record) -> JSONObject:
    """Return an instance as one row."""
    power = instance.get("power_state", states.NOSTATE)
    settled = instance.get("vm_state") in (states.ACTIVE, states.RESIZED) and not instance.get("task_state")
    return {
        **instance,
        "power": states.POWER_NAMES.get(power, str(power)) if instance.get("host") else None,
        "is_down": bool(settled and power in states.DOWN),
        "status": (instance.get("vm_state") or "").upper(),
        "task": instance.get("task_state"),
        "flavor": (instance.get("flavor") or {}).get("name"),
    }
