# SPDX-License-Identifier: Apache-2.0
"""``fleet volume pool``: the storage pools, with their space and the claims of volumes.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from fleet.client import connection
from fleet.client.connection import Record
from fleet_cli.base import command, listing

COLUMNS = (
    *("name", "state", "disabled", "availability_zone", "volume_backend_name", "total_capacity_gb", "free_capacity_gb"),
    *("allocated_capacity_gb", "provisioned_capacity_gb", "reserved_percentage", "over_subscription", "total_volumes"),
    *("thin_provisioning_support", "thick_provisioning_support", "max_over_subscription_ratio", "updated_at"),
)


class ListPools(listing.List):
    """List the storage pools."""

    things = "storage pools"
    brief = ("name", "state", "total_gb", "free_gb", "volumes_gb", "volumes")
    whole = COLUMNS

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        return [_with_words(each) for each in self.conductor.operator.list_pools()]

    def shortened(self, record: Record) -> Record:
        state = "disabled" if record["disabled"] else record["state"]
        sizes = {f"{name}_gb": record[f"{name}_capacity_gb"] for name in ("total", "free")}
        held = {"volumes_gb": record["allocated_capacity_gb"], "volumes": record["total_volumes"]}
        return {"name": record["name"], "state": state, **sizes, **held}


class ShowPool(command.ShowOne):
    """Show a storage pool with its capabilities, which volume types match."""

    arguments = (command.argument("pool", help="machine@backend#pool."),)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        found = self.conductor.operator.list_pools(name=parsed_args.pool)
        if len(found) > 1:
            names = ", ".join(each["name"] for each in found)
            raise connection.CommandFailed(f"{parsed_args.pool} is a backend with several pools: {names}")
        return command.one((*COLUMNS, "capabilities"), _with_words(found[0]))


def _with_words(pool: Record) -> Record:
    """Return the record with "infinite" and "unknown" where the ledger has no number."""
    named = ("total_capacity_gb", "free_capacity_gb")
    words = {name: pool["capabilities"].get(name) for name in named if pool[name] is None}
    return {**pool, **words}
