# SPDX-License-Identifier: Apache-2.0
"""``fleet aggregate``: sets of hosts with metadata; the key ``availability_zone`` makes one a zone."""

from __future__ import annotations

import argparse

from fleet.cli import command

COLUMNS = ("name", "uuid", "hosts", "metadata")


class ListAggregates(command.Lister):
    """List the aggregates with their hosts and metadata."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        return command.table(COLUMNS, self.conductor.operator("list_aggregates"))


class _Change(command.ShowOne):
    """A command on one aggregate, which it shows afterwards."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("aggregate", help="Name or uuid.")
        return parser

    def shown(self, aggregate: dict) -> tuple:
        names, rows = command.table(COLUMNS, [aggregate])
        return names, rows[0]


class CreateAggregate(_Change):
    """Create an aggregate."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _metadata_argument(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        metadata = dict(parsed_args.metadata)
        if parsed_args.zone:
            metadata["availability_zone"] = parsed_args.zone
        created = self.conductor.operator("create_aggregate", name=parsed_args.aggregate, metadata=metadata)
        return self.shown(created)


class AddHost(_Change):
    """Add a host to an aggregate."""

    method = "add_aggregate_host"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("host")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        changed = self.conductor.operator(self.method, name=parsed_args.aggregate, host=parsed_args.host)
        return self.shown(changed)


class RemoveHost(AddHost):
    """Take a host out of an aggregate."""

    method = "remove_aggregate_host"


class SetMetadata(_Change):
    """Set metadata of an aggregate; an empty value removes the key."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _metadata_argument(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        metadata: dict[str, str | None] = {key: value or None for key, value in parsed_args.metadata}
        if parsed_args.zone is not None:
            metadata["availability_zone"] = parsed_args.zone or None
        changed = self.conductor.operator("set_aggregate_metadata", name=parsed_args.aggregate, metadata=metadata)
        return self.shown(changed)


def _metadata_argument(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument(
        "--property",
        dest="metadata",
        type=command.pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="Metadata; repeat for several.",
    )
    parser.add_argument("--zone", help="Name of the availability zone that the aggregate's hosts are in.")
    return parser
