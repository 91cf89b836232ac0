# SPDX-License-Identifier: Apache-2.0
"""The program ``fleet``: boots and shows instances, and operates the fleet.

The console script of this name calls :func:`main`.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import sys
from collections.abc import Sequence

from cliff import commandmanager
from oslo_config import cfg

from fleet.client import argument_types, connection
from fleet.client.calls import Calls
from fleet.telemetry import process_memory
from fleet_cli.base import application
from fleet_cli.base.output import plain_output
from fleet_cli.command_list import ALIASES, COMMANDS, TOPICS

#: What a new user types first.
FIRST_STEPS = ("fleet host list", "fleet boot --flavor vcpus=1,memory_mb=512 --wait web", "fleet doctor")


def entry_points() -> list[importlib.metadata.EntryPoint]:
    """Return the commands as cliff loads them."""
    return [_entry_point(name, place) for name, place in COMMANDS]


def _entry_point(name: str, place: str) -> importlib.metadata.EntryPoint:
    return importlib.metadata.EntryPoint(name, f"fleet_cli.{place}", "fleet_cli")


def load(place: str) -> object:
    """Return the class of a command. :param place: as in ``command_list``"""
    return _entry_point("", place).load()


class FleetApp(application.Application):
    """Reads the configuration, registers the commands, and turns a failure into one line and exit status 1."""

    NAME = "fleet"
    LOG = logging.getLogger("fleet")

    def __init__(self, conf: cfg.ConfigOpts = cfg.CONF) -> None:
        manager = commandmanager.CommandManager()
        manager.commands.update({each.name: each for each in entry_points()})
        for name, command in ALIASES.items():
            manager.add_legacy_command(name, command)
        super().__init__("Boot instances and run the fleet.", manager, application.names(TOPICS), FIRST_STEPS)
        self.conf = conf
        self.connection: Calls = connection.Connection(conf)

    def build_option_parser(self, description, version, argparse_kwargs=None):
        parser = super().build_option_parser(description, version, argparse_kwargs)
        parser.add_argument(
            "--url",
            action="append",
            type=argument_types.text,
            default=[],
            help="Ask fleet-api at this URL, such as https://fleet.example:8774, instead of the message broker. "
            "FLEET_USERNAME and FLEET_PASSWORD, or ~/.netrc, have the name and the password of a user; FLEET_TOKEN has a "
            "token of keystone. "
            "Default: the environment variable FLEET_URL.",
        )
        return parser

    def initialize_app(self, argv: list[str]) -> None:
        application.load(self.options.config_file, self.NAME, self.conf)
        url = self.options.url[-1] if self.options.url else os.environ.get("FLEET_URL")
        if url:
            # Imported when needed: it takes 0.1 s.
            from fleet.client.http_connection import HttpConnection

            known = (os.environ.get(f"FLEET_{name}") for name in ("USERNAME", "PASSWORD", "TOKEN"))
            self.connection = HttpConnection(url, *known)

    def clean_up(self, cmd, result, err) -> None:
        self.connection.close()


def main(argv: Sequence[str] | None = None) -> int:
    process_memory.collect_rarely()
    with plain_output.installed():
        return FleetApp().run(list(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    sys.exit(main())
