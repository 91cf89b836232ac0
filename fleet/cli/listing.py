# SPDX-License-Identifier: Apache-2.0
"""Lists: a table of 80 columns for people, everything for programs; shown once, or again and again.

A table has the columns of ``brief``, and short uuids: commands take the beginning of a uuid wherever
they take a uuid, while it fits one thing only. ``--long``, ``-c`` and the formats for programs show ``whole``, with whole
uuids.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from cliff import columns, lister

from fleet.cli import command, table_fit
from fleet.client import argument_types
from fleet.client.connection import Record

#: Columns of a table that goes to no terminal.
WIDTH = 80
_CLEAR = "\x1b[H\x1b[2J"
_SHORT_UUID = 8


class Uuid(columns.FormattableColumn):
    """A uuid of which people are shown so many characters as tell it from the others of the list."""

    def __init__(self, value: str, length: int) -> None:
        super().__init__(value)
        self._length = length

    def human_readable(self) -> str:
        return str(self._value)[: self._length]


def width() -> int:
    """Of the terminal; WIDTH if there is none, unless the environment variable COLUMNS names another."""
    try:
        return os.get_terminal_size().columns
    except OSError:
        named = os.environ.get("COLUMNS", "")
        return int(named) if named.isdecimal() and int(named) else WIDTH


class Fitted(lister.Lister):
    """A list whose table is as wide as the terminal at most, and that says so if it is empty."""

    #: What the list has none of, in the plural.
    things = "lines"

    #: Printed below the table, numbered: what is too long for a cell, or would stand in many.
    notes: Sequence[str] = ()

    def nothing(self, parsed_args: argparse.Namespace) -> str:
        """The line that stands for an empty table."""
        return f"There are no {self.things}."

    def is_table(self, parsed_args: argparse.Namespace) -> bool:
        return parsed_args.formatter == "table"

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> int:
        rows: Sequence[Sequence[Any]] = list(data)
        if self.is_table(parsed_args):
            if not rows and not parsed_args.print_empty:
                print(self.nothing(parsed_args), file=self.app.stdout)
                return 0
            if not parsed_args.max_width:
                chosen = [name for name in column_names if not parsed_args.columns or name in parsed_args.columns]
                rows = table_fit.fitted(column_names, rows, chosen, width())
        status = super().produce_output(parsed_args, column_names, rows)
        for number, note in enumerate(self.notes, 1):
            mark = f"({number}) "
            filled = textwrap.fill(mark + note, parsed_args.max_width or width(), subsequent_indent=" " * len(mark))
            print(filled, file=self.app.stdout)
        return status


class List(Fitted, command.Lister):
    """A list of records."""

    brief: Sequence[str] = ()
    whole: Sequence[str] = ()
    sleep: Callable[[float], None] = staticmethod(time.sleep)

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--long", action="store_true", help="All columns, and whole uuids.")
        parser.add_argument(
            "--watch",
            type=argument_types.positive,
            nargs="?",
            const=2,
            metavar="SECONDS",
            help="Show the list anew every so many seconds, until Ctrl-C. Default: 2.",
        )
        return parser

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        """What is listed, with the columns of ``whole``."""
        raise NotImplementedError

    def shortened(self, record: Record) -> Record:
        """The columns of ``brief``."""
        return record

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        found = list(self.records(parsed_args))
        if parsed_args.long or parsed_args.columns or not self.is_table(parsed_args):
            return command.table(self.whole, found)
        return command.table(self.columns(found), _with_short_uuids([self.shortened(each) for each in found]))

    def columns(self, found: Sequence[Record]) -> Sequence[str]:
        """Those of ``brief`` that say something of these records."""
        return self.brief

    def run(self, parsed_args: argparse.Namespace) -> int:
        if not parsed_args.watch:
            return super().run(parsed_args)
        try:
            while True:
                if self.app.stdout.isatty():
                    print(_CLEAR, end="", file=self.app.stdout)
                super().run(parsed_args)
                self.app.stdout.flush()
                self.sleep(parsed_args.watch)
        except KeyboardInterrupt:
            return 0


def some(names: Sequence[Any], most: int = 3) -> str:
    """The number of names, and the first of them."""
    if len(names) <= most:
        return ", ".join(map(str, names))
    return f"{len(names)}: {', '.join(map(str, names[:most]))}, …"


def _with_short_uuids(records: Sequence[Record]) -> Iterator[Record]:
    names = ("uuid", "instance_uuid")
    lengths = {name: _telling({str(each[name]) for each in records if each.get(name)}) for name in names}
    for each in records:
        short = {name: Uuid(each[name], lengths[name]) for name in names if each.get(name)}
        yield {**each, **short}


def _telling(uuids: set[str]) -> int:
    """The least length, from 8 on, at which they differ."""
    length = _SHORT_UUID
    while len({each[:length] for each in uuids}) < len(uuids):
        length += 1
    return length


def remark(line: str) -> None:
    """Say something beside a list: on stderr, so that programs that read the list do not meet it."""
    if line:
        print(line, file=sys.stderr, flush=True)
