# SPDX-License-Identifier: Apache-2.0
"""``fleet server lock``, ``unlock`` and ``reset-state``: changes of the row, which are done when the call returns.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fleet import states
from fleet.client.connection import Record
from fleet.json_codec import JSONMapping
from fleet_cli.base import command, several


class _ChangeRow(command.Command):
    """A command on several instances. :cvar method: of the conductor"""

    method: str
    arguments: Sequence[command.Argument] = (
        command.argument("server", nargs="+", help="Name, uuid, or the beginning of one."),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        operator, options = self.conductor.operator, self.options(parsed_args)
        meant = several.resolved(parsed_args.server, lambda name: operator.show_instance(name=name)["instance"])
        changed, refused = several.ask(meant, lambda uuid: operator.call(self.method, name=uuid, **options))
        for each in changed:
            print(f"{each['name']} ({each['uuid']}) {self.outcome(each)}", file=self.app.stdout)
        several.conclude(meant, refused)

    def options(self, parsed_args: argparse.Namespace) -> JSONMapping:
        """Return the arguments of the method, besides the name."""
        return {}

    def outcome(self, instance: Record) -> str:
        """Return the present state of the instance."""
        return f"is {instance['vm_state'].upper()}"


class LockServer(_ChangeRow):
    """Refuse changes of instances by members of their project; administrators may still change them."""

    method = "lock_instance"
    arguments = (command.argument("--reason", type=str, help="Why: the answer to a refused change has it."),)

    def options(self, parsed_args: argparse.Namespace) -> JSONMapping:
        return {"reason": parsed_args.reason} if parsed_args.reason else {}

    def outcome(self, instance: Record) -> str:
        return f"is locked by its {instance['locked_by']}"


class UnlockServer(_ChangeRow):
    """Allow members of their project to change instances again."""

    method = "unlock_instance"

    def outcome(self, instance: Record) -> str:
        return "is not locked"


class ResetState(_ChangeRow):
    """Set the state of instances, where the ledger is wrong about their guests. Nothing is done to a guest."""

    method = "reset_state"
    arguments = (
        command.argument(
            "--active",
            dest="state",
            action="store_const",
            const=states.ACTIVE,
            default=states.ERROR,
            help="Set ACTIVE. Without it, ERROR.",
        ),
    )

    def options(self, parsed_args: argparse.Namespace) -> JSONMapping:
        return {"state": parsed_args.state}
