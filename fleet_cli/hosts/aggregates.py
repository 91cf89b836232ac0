# SPDX-License-Identifier: Apache-2.0
"""``fleet aggregate``: sets of hosts with metadata.

Registered in :mod:`fleet_cli.command_list`. The key ``availability_zone`` makes an aggregate a zone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from fleet.client import connection
from fleet.client.connection import Record
from fleet.objects.answers.hosts import AggregateView
from fleet_cli.base import command, listing

COLUMNS = ("name", "uuid", "hosts", "metadata")
_AGGREGATE = command.argument("aggregate", help="Its name; of one that exists, its uuid will do.")
_METADATA = (
    command.pairs("--property", dest="metadata", help="A key of the metadata and its value; repeat for several."),
    command.argument("--zone", type=str, help="Name of the availability zone that the aggregate's hosts are in."),
)


class ListAggregates(listing.List):
    """List the aggregates with their hosts and metadata."""

    things = "aggregates"
    brief = whole = COLUMNS

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        return self.conductor.operator.list_aggregates()

    def shortened(self, record: Record) -> Record:
        return {**record, "hosts": listing.some(record["hosts"])}


class _Change(command.ShowOne):
    """A command on one aggregate, which it shows afterwards."""

    arguments: Sequence[command.Argument] = (_AGGREGATE,)

    def shown(self, aggregate: AggregateView) -> tuple:
        return command.one(COLUMNS, aggregate)


class ShowAggregate(_Change):
    """Show an aggregate."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        return self.shown(self.conductor.operator.show_aggregate(name=parsed_args.aggregate))


class DeleteAggregate(command.Command):
    """Delete an aggregate; refused while it has hosts."""

    arguments = (_AGGREGATE,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.operator.delete_aggregate(name=parsed_args.aggregate)


class CreateAggregate(_Change):
    """Create an aggregate."""

    arguments = _METADATA

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        metadata = dict(parsed_args.metadata)
        if parsed_args.zone:
            metadata["availability_zone"] = parsed_args.zone
        created = self.conductor.operator.create_aggregate(name=parsed_args.aggregate, metadata=metadata)
        return self.shown(created)


class AddHost(_Change):
    """Add a host to an aggregate."""

    method = "add_aggregate_host"

    arguments = (command.argument("host"),)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        changed = self.conductor.operator.call(self.method, name=parsed_args.aggregate, host=parsed_args.host)
        return self.shown(changed)


class RemoveHost(AddHost):
    """Remove a host from an aggregate."""

    method = "remove_aggregate_host"


class SetMetadata(_Change):
    """Change the metadata or the name of an aggregate.

    Keys that are not named keep their values. --property KEY= (without a value) removes a key, --zone "" takes the
    hosts out of their availability zone.
    """

    arguments = (*_METADATA, command.argument("--name", help="A new name."))

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        metadata: dict[str, str | None] = {key: value or None for key, value in parsed_args.metadata}
        if parsed_args.zone is not None:
            metadata["availability_zone"] = parsed_args.zone or None
        if not metadata and not parsed_args.name:
            raise connection.CommandFailed("nothing to change: use --property, --zone or --name")
        name = parsed_args.aggregate
        if metadata:
            changed = self.conductor.operator.set_aggregate_metadata(name=name, metadata=metadata)
        if parsed_args.name:
            changed = self.conductor.operator.rename_aggregate(name=name, new_name=parsed_args.name)
        return self.shown(changed)
