# SPDX-License-Identifier: Apache-2.0
"""Options, help, logging and refusals of a wrong command line, for the programs ``fleet`` and ``fleet-manage``.

:mod:`fleet_cli.main` and :mod:`fleet_cli.manage` inherit from it.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from cliff import app, commandmanager
from oslo_config import cfg

from fleet import conf as fleet_conf
from fleet.json_codec import JSONObject
from fleet.rpc import nova_broker
from fleet_cli.base import completion, overview, suggestions, usage

#: Logs what a filter or weigher of the user's has raised, in a command that plans. The error of the command has the place.
_PLUGINS = "scheduler.engine.supervision.supervision"
#: Libraries whose information is not for users.
_LIBRARIES = ("oslo_messaging", "oslo", "amqp", "stevedore", "cliff", "alembic", "sqlalchemy")
#: Exit status of a program whose output is not read to its end, as of a shell.
_BROKEN_PIPE = 141
_ABOUT_SHELLS = "Shell and help"


def names(topics: Mapping[str, Sequence[tuple[str, object]]]) -> overview.Topics:
    """Return the names of commands by topic. :param topics: commands with anything else, by topic"""
    return {title: [name for name, _what in commands] for title, commands in topics.items()}


class Application(app.App):
    """Without a command it prints an overview; it needs no configuration for that, and none for ``--help``.

    :param topics: names of the commands by topic
    :param first_steps: command lines that a new user types first
    """

    def __init__(
        self,
        description: str,
        manager: commandmanager.CommandManager,
        topics: overview.Topics,
        first_steps: Sequence[str],
    ) -> None:
        super().__init__(description, importlib.metadata.version("fleet"), manager, deferred_help=True)
        # Replaces cliff's own command, which completes no names.
        manager.add_command("complete", completion.Complete)
        self._description = description
        self._topics = {**topics, _ABOUT_SHELLS: ["complete", "help"]}
        self._first_steps = first_steps

    def build_option_parser(
        self, description: str | None, version: str | None, argparse_kwargs: JSONObject | None = None
    ) -> argparse.ArgumentParser:
        narrow = functools.partial(argparse.HelpFormatter, width=overview.WIDTH - 2)
        given = {"formatter_class": narrow, "prog": self.NAME, "usage": f"{self.NAME} [OPTION ...] COMMAND ..."}
        parser = super().build_option_parser(description, version, {**given, **(argparse_kwargs or {})})
        parser.add_argument(
            "--config-file",
            action="append",
            default=[],
            metavar="FILE",
            help="Configuration file; repeat to read several. Default: the file named by the environment variable "
            f"{fleet_conf.CONFIG_FILE_VARIABLE}, or {fleet_conf.DEFAULT_CONFIG_FILE}.",
        )
        return usage.brief(parser)

    def configure_logging(self) -> None:
        super().configure_logging()
        quieten(self.options.verbose_level)

    def run(self, argv: list[str]) -> int:
        options, rest = self.parser.parse_known_args(argv)
        wants_help = options.deferred_help or rest == ["help"]
        if rest and rest != ["help"]:
            return super().run(argv)
        return self._print(self._help() if wants_help else self._overview())

    def run_subcommand(self, argv: list[str]) -> int:
        try:
            self.command_manager.find_command(argv)
        except ValueError:
            return usage.refuse(self.NAME, self._unknown(argv), f"{self.NAME} --help")
        if argv[0] == "help" and not self._explains(argv[1:]):
            return usage.refuse(self.NAME, self._unknown(argv[1:]), f"{self.NAME} --help")
        return super().run_subcommand(argv)

    def _explains(self, words: Sequence[str]) -> bool:
        """Return True if cliff's command "help" knows a command, or the first word of some."""
        first = next((word for word in words if not word.startswith("-")), "")
        return not words or any(name.startswith(first) for name, _command in self.command_manager)

    def prepare_to_run_command(self, cmd: Any) -> None:
        make_parser = cmd.get_parser
        cmd.get_parser = lambda prog_name: usage.require_texts(usage.brief(make_parser(prog_name)))

    def _unknown(self, argv: Sequence[str]) -> str:
        """Return a sentence about a command line that begins with no command."""
        if argv[0].startswith("-"):
            return f"{argv[0]} is no option"
        known = [name for commands in self._topics.values() for name in commands]
        if following := suggestions.continued(argv, known):
            return f"'{' '.join(argv)}' needs one of these words: {', '.join(following)}"
        advice = ""
        if meant := suggestions.suggested(argv, known):
            advice = f"; did you mean {' or '.join(repr(each) for each in meant)}?"
        elif following := suggestions.continued(argv[:1], known):
            advice = f"; '{argv[0]}' has {', '.join(following)}"
        return f"'{' '.join(argv)}' is no command{advice}"

    def _overview(self) -> str:
        page = overview.overview(self._topics, self._described)
        steps = "\n".join(f"  {each}" for each in self._first_steps)
        pointer = f"'{self.NAME} --help' lists all commands and options.\n'{self.NAME} help COMMAND' explains one."
        return f"{self._description}\n\n{page}\nFirst steps\n{steps}\n\n{pointer}\n"

    def _help(self) -> str:
        return f"{self.parser.format_help()}\n{overview.listing(self._topics, self._described)}"

    def _described(self, name: str) -> str:
        factory, _name, _rest = self.command_manager.find_command(name.split())
        described: str = factory(self, None).get_description()
        return overview.first_paragraph(described).rstrip(".")

    def _print(self, page: str) -> int:
        try:
            self.stdout.write(page)
            self.stdout.flush()
        except BrokenPipeError:
            # Python would flush the stream again at its end.
            sys.stdout = None
            return _BROKEN_PIPE
        except OSError as full:
            self.LOG.error(full)
            return 1
        return 0


def quieten(verbose_level: int) -> None:
    """Show only warnings of the libraries, and no traceback of a filter, unless the user asked for more."""
    if verbose_level <= 1:
        for library in _LIBRARIES:
            logging.getLogger(library).setLevel(logging.WARNING)
        for handler in logging.getLogger().handlers:
            # The console's, which ends with the command; no handler that captures logs.
            if type(handler) is logging.StreamHandler:
                handler.addFilter(_without_traceback)


def _without_traceback(record: logging.LogRecord) -> bool:
    if record.name == _PLUGINS:
        record.exc_info = record.exc_text = None
    return True


def load(config_files: Sequence[str], prog: str, conf: cfg.ConfigOpts) -> None:
    arguments = [part for file in config_files for part in ("--config-file", file)]
    fleet_conf.load_config(arguments, prog, conf=conf, setup_logging=False)
    nova_broker.use(conf)
