# SPDX-License-Identifier: Apache-2.0
"""``fleet network``: bridges that guests are plugged into, and the addresses that they get.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from fleet.client.connection import Record
from fleet_cli.base import command, listing

COLUMNS = (
    *("name", "uuid", "subnet", "first", "last", "gateway", "dns", "bridge", "is_default", "projects"),
    *("addresses", "used", "created_at"),
)


def _ends(text: str) -> dict[str, str]:
    """An argparse type: the first and the last address of a range."""
    first, dash, last = text.partition("-")
    if not dash:
        raise argparse.ArgumentTypeError(f"{text!r} is not FIRST-LAST, such as 192.0.2.10-192.0.2.99")
    return {"first": first.strip(), "last": last.strip()}


_NETWORK = command.argument("network", help="Name or uuid.")


class ListNetworks(listing.List):
    """List the networks, with the addresses that instances have."""

    things = "networks"
    brief = ("name", "uuid", "subnet", "bridge", "default", "used")
    whole = COLUMNS

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        return self.conductor.operator.list_networks()

    def shortened(self, record: Record) -> Record:
        used = f"{record['used']}/{record['addresses']}" if "used" in record else ""
        return {**record, "used": used, "default": "yes" if record["is_default"] else ""}


class ShowNetwork(command.ShowOne):
    """Show a network."""

    arguments = (_NETWORK,)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        return command.one(COLUMNS, self.conductor.operator.show_network(name=parsed_args.network))


class CreateNetwork(command.ShowOne):
    """Create a network; plug guests into it with 'fleet boot --network'.

    Its bridge is made by the operator of the hosts, as are DHCP, routes and firewalls.
    """

    arguments = (
        command.argument("name"),
        command.argument(
            "--bridge", required=True, help="Bridge on the hosts that have the network. Others get no guests of it."
        ),
        command.argument(
            "--subnet", required=True, metavar="ADDRESS/BITS", help="IPv4 subnet of the guests, such as 192.0.2.0/24."
        ),
        command.argument(
            "--range",
            type=_ends,
            default={},
            metavar="FIRST-LAST",
            help="The addresses that guests get. Default: all of the subnet but the gateway.",
        ),
        command.argument(
            "--gateway", metavar="ADDRESS", help="Router of the guests; no guest gets this address. Default: none."
        ),
        command.repeated("--dns", metavar="ADDRESS", help="Name server; repeat for several."),
        command.repeated(
            "--project",
            metavar="ID",
            help="A project that may use the network; repeat for several. Default: all projects.",
        ),
        command.argument(
            "--default", action="store_true", help="Give guests that name no network an address of this one."
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        network = {
            "name": parsed_args.name,
            "bridge": parsed_args.bridge,
            "subnet": parsed_args.subnet,
            "gateway": parsed_args.gateway,
            "dns": parsed_args.dns,
            "projects": parsed_args.project,
            "is_default": parsed_args.default,
            **parsed_args.range,
        }
        return command.one(COLUMNS, self.conductor.operator.create_network(network=network))


class DeleteNetwork(command.Command):
    """Delete a network. It is refused while instances have addresses of it."""

    arguments = (_NETWORK,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.delete_network(name=parsed_args.network)
