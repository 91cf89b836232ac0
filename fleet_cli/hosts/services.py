# SPDX-License-Identifier: Apache-2.0
"""``fleet service``: the daemons, and whether a host takes new instances.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from fleet.client import connection, pages
from fleet.client.connection import Record
from fleet_cli.base import command, listing
from fleet_cli.base.output import moments
from fleet_cli.hosts import hosts

COLUMNS = ("host", "binary", "status", "state", "driver", "disabled_reason", "last_seen_up")
LONG = ("forced_down", "hostname", "pid", "release", "rpc_version")
_SERVICE = (
    command.HOST,
    command.argument("binary", nargs="?", default="fleet-compute", help="Default: %(default)s."),
)


class ListServices(listing.List):
    """List the registered daemons with their last heartbeat.

    States: up; silent (no heartbeats any more); stopped (it reported its end); forced down (by an operator).
    """

    things = "services"
    brief = ("host", "binary", "driver", "status", "state", "detail")
    whole = (*COLUMNS, *LONG)

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        found = pages.services(self.conductor.operator)
        agents = {each["host"]: each.get("driver") for each in found if each["binary"] == "fleet-compute"}
        listing.remark(hosts.simulated(agents))
        return [{**each, "state": state(each)} for each in found]

    def shortened(self, record: Record) -> Record:
        said = [record.get("disabled_reason") or ""]
        if record["state"] == SILENT:
            said.append(f"since {moments.shown(record['last_seen_up'])}")
        return {**record, "detail": "; ".join(filter(None, said))}


class ShowService(ListServices):
    """Show the daemons of one host."""

    arguments = (command.HOST,)

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        found = [each for each in pages.services(self.conductor.operator) if each["host"] == parsed_args.host]
        if not found:
            raise connection.CommandFailed(f"Service on host {parsed_args.host} could not be found.")
        return [{**each, "state": state(each)} for each in found]


UP, SILENT, STOPPED, FORCED_DOWN = "up", "silent", "stopped", "forced down"


def state(service: Record) -> str:
    """Return the state of a daemon, and for one that is down the reason."""
    if service.get("forced_down"):
        return FORCED_DOWN
    if service.get("state") == "up":
        return UP
    return SILENT if service.get("last_seen_up") else STOPPED


class EnableService(command.Command):
    """Let a host take new instances again."""

    arguments = _SERVICE

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        host = parsed_args.host
        enabled = self.conductor.operator.update_service(
            host=host, binary=parsed_args.binary, disabled=False, reason=None
        )
        if enabled["forced_down"]:
            undo = f"'fleet service force-down --unset {host}' lets it take instances"
            listing.remark(f"{host} is enabled, and it is still forced down: {undo}")


class DisableService(command.Command):
    """Place no new instances on a host; its instances stay."""

    arguments = (*_SERVICE, command.argument("--reason", type=str, help="Why; shown by 'fleet service list'."))

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.update_service(
            host=parsed_args.host,
            binary=parsed_args.binary,
            disabled=True,
            reason=parsed_args.reason,
        )


class ForceDown(command.Command):
    """Declare a host dead before its heartbeats time out, so that its instances can be evacuated."""

    arguments = (
        command.HOST,
        command.argument("--unset", action="store_true", help="It lives: go by its heartbeats again."),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.force_down(host=parsed_args.host, forced=not parsed_args.unset)


class DeleteService(command.Command):
    """Remove the record of a daemon that is gone. An agent's record is removed with its host, which must be empty."""

    arguments = _SERVICE

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.delete_service(host=parsed_args.host, binary=parsed_args.binary)
