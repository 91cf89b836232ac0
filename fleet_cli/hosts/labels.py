# SPDX-License-Identifier: Apache-2.0
"""``fleet host set`` and ``unset``: labels of hosts, such as ``rack=r7``.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from fleet_cli.base import command


class _Change(command.ShowOne):
    """A command that changes labels of a host, and shows those that count afterwards."""

    def change(self, host: str, labels: Mapping[str, str | None]) -> tuple:
        after = self.conductor.operator.set_host_labels(host=host, labels=labels)
        return command.one(("host", "labels"), {"host": host, "labels": after})


class SetHost(_Change):
    """Set labels of a host. They win over those of its configuration (host_labels)."""

    arguments = (
        command.pairs(
            "--label",
            dest="labels",
            required=True,
            help="A label, such as rack=r7; repeat for several. KEY= hides a label of the host's configuration.",
        ),
        command.HOST,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        return self.change(parsed_args.host, dict(parsed_args.labels))


class UnsetHost(_Change):
    """Remove labels that 'fleet host set' has set. Labels of the host's configuration count again."""

    arguments = (
        command.repeated(
            "--label", dest="labels", required=True, metavar="KEY", help="Key of a label; repeat for several."
        ),
        command.HOST,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        return self.change(parsed_args.host, dict.fromkeys(parsed_args.labels))
