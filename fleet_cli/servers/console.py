# SPDX-License-Identifier: Apache-2.0
"""``fleet server console-log``: the text that a guest has printed.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
import re
import sys

from fleet.client import argument_types
from fleet_cli.base import command

#: Escape sequences and other control characters: a guest must not write to the terminal of who reads its console.
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b.|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class ConsoleLog(command.Command):
    """Print the end of what an instance has printed on its console: at most 100 KiB."""

    arguments = (
        command.SERVER,
        command.argument(
            "--lines", type=argument_types.positive, metavar="N", help="Only the last N lines. Default: all."
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        text = self.conductor.operator.get_console_output(name=parsed_args.server)
        lines = plain(text).splitlines()
        for line in lines[-parsed_args.lines :] if parsed_args.lines else lines:
            sys.stdout.write(f"{line}\n")


def plain(text: str) -> str:
    """Return text without control characters, but for ends of lines and tabs."""
    return _CONTROLS.sub("", text)
