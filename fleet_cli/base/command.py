# SPDX-License-Identifier: Apache-2.0
"""The base of all commands: the connection to the conductor, failures in plain words, and the form of values.

The commands of all topics inherit from it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cliff import columns, command, lister, show

from fleet.client import argument_types
from fleet.client.calls import Calls
from fleet.client.connection import Record
from fleet_cli.base.output import moments

#: Adds an argument to a parser.
Argument = Callable[[argparse.ArgumentParser], object]
Row = Sequence[object]
_WITH_NULL = ("json", "yaml")


def argument(*names: str, **options: Any) -> Argument:
    """An argument of a command: ``names`` and ``options`` are those of argparse's ``add_argument``."""
    return lambda parser: parser.add_argument(*names, **options)


def repeated(*names: str, **options: Any) -> Argument:
    """An argument that may be given several times; its value is a list."""
    return argument(*names, action="append", default=[], **options)


def pairs(*names: str, **options: Any) -> Argument:
    """An argument KEY=VALUE that may be given several times."""
    return repeated(*names, type=argument_types.pair, metavar="KEY=VALUE", **options)


SERVER = argument("server", help="Name, uuid, or the beginning of one.")
HOST = argument("host")
#: Of a command whose work goes on after its call, and may take hours.
WAIT_FOR_THE_END = argument(
    "--wait", action="store_true", help="Wait for the end; exit status 1 if it is not a good one."
)
#: Of other commands whose work goes on after their call.
WAIT: Sequence[Argument] = (
    WAIT_FOR_THE_END,
    argument(
        "--timeout",
        type=argument_types.positive,
        default=600,
        metavar="SECONDS",
        help="With --wait: how long. Default: 600.",
    ),
)


class Arguments:
    """A mixin for cliff's classes. A command has its ``arguments``, after those of its base classes."""

    arguments: Sequence[Argument] = ()

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().get_parser(prog_name)  # type: ignore[misc]
        for each in (own for base in reversed(type(self).__mro__) for own in vars(base).get("arguments", ())):
            each(parser)
        return parser


class _Connected(Arguments):
    """A mixin for cliff's classes."""

    app: Any

    @property
    def conductor(self) -> Calls:
        return self.app.connection

    def get_epilog(self) -> str:
        """Return no epilog. Cliff's names the package of a plugin; to find it, it reads 0.1 s in all packages' metadata."""
        return ""

    def run(self, parsed_args: argparse.Namespace) -> int:
        with self.conductor.plain_failures():
            return super().run(parsed_args) or 0  # type: ignore[misc]


class Command(_Connected, command.Command):
    """A command that prints at most one line."""


class Lister(_Connected, lister.Lister):
    """Prints a table."""

    def produce_output(self, parsed_args: argparse.Namespace, names: Sequence[str], rows: Iterable[Row]) -> int:
        return super().produce_output(parsed_args, names, [_row(each, parsed_args.formatter) for each in rows])


class ShowOne(_Connected, show.ShowOne):
    """Prints one object, a line for each field."""

    def produce_output(self, parsed_args: argparse.Namespace, names: Sequence[str], row: Row) -> int:
        return super().produce_output(parsed_args, names, _row(row, parsed_args.formatter))


def table(names: Sequence[str], records: Iterable[Record]) -> tuple[Sequence[str], list[tuple]]:
    """Return columns and rows for cliff. A missing value is None."""
    return names, [tuple(_shown(record.get(name)) for name in names) for record in records]


def one(names: Sequence[str], record: Record) -> tuple[Sequence[str], tuple]:
    """Return fields and values of one object for cliff."""
    columns, rows = table(names, [record])
    return columns, rows[0]


class Listed(columns.FormattableColumn):
    """A list: comma-separated for people, a list for programs."""

    def human_readable(self) -> str:
        return ", ".join(map(str, self._value))


class Pairs(columns.FormattableColumn):
    """A mapping: ``key=value`` pairs for people, a mapping for programs."""

    def human_readable(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in sorted(self._value.items()))


def _shown(value: object) -> object:
    if isinstance(value, Mapping):
        return Pairs(value)
    if isinstance(value, (list, tuple)):
        return Listed(value)
    if moments.is_moment(value):
        return moments.Moment(value)
    return value


def _row(row: Row, formatter: str) -> Row:
    """Return a row in which missing values are null for formats that have it, and empty in others."""
    return row if formatter in _WITH_NULL else tuple("" if each is None else each for each in row)
