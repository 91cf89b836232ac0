# SPDX-License-Identifier: Apache-2.0
"""Lists: a table of 80 columns for people, everything for programs; shown once or repeatedly.

All commands that list inherit from it. A table has the columns of ``brief`` and shortened uuids. Commands accept the
beginning of a uuid wherever they accept a uuid, if it is unambiguous. ``--long``, ``-c`` and the formats for programs
show the columns of ``whole`` with complete uuids.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from cliff import columns, lister

from fleet.client import argument_types, connection
from fleet.client.connection import Record
from fleet_cli.base import command
from fleet_cli.base.output import plain_output, table_fit

#: Width of a table that is not printed to a terminal.
WIDTH = 80
_SHORT_UUID = 8


class Uuid(columns.FormattableColumn):
    """A uuid. People see as many characters as distinguish it from the others of the list."""

    def __init__(self, value: str, length: int) -> None:
        super().__init__(value)
        self._length = length

    def human_readable(self) -> str:
        return str(self._value)[: self._length]


def width() -> int:
    """Return the terminal's width. Without a terminal it is the environment variable COLUMNS, or WIDTH."""
    try:
        return os.get_terminal_size().columns
    except OSError:
        named = os.environ.get("COLUMNS", "")
        return int(named) if named.isdecimal() and int(named) else WIDTH


class Fitted(lister.Lister):
    """A list whose table fits the terminal, with a sentence in place of an empty table."""

    #: What is listed, in the plural.
    things = "lines"

    #: Numbered notes below the table: texts too long for a cell, or equal in many cells.
    notes: Sequence[str] = ()

    def nothing(self, parsed_args: argparse.Namespace) -> str:
        """Return the sentence in place of an empty table."""
        return f"There are no {self.things}."

    def is_table(self, parsed_args: argparse.Namespace) -> bool:
        return parsed_args.formatter == "table"

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[object]]
    ) -> int:
        rows: Sequence[Sequence[object]] = list(data)
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

    arguments: Sequence[command.Argument] = (
        command.argument("--long", action="store_true", help="All columns, and whole uuids."),
        command.argument(
            "--watch",
            type=argument_types.positive,
            nargs="?",
            const=2,
            metavar="SECONDS",
            help="Show the list anew every so many seconds, until Ctrl-C. Default: 2.",
        ),
    )

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        """Return the records, with the columns of ``whole``."""
        raise NotImplementedError

    def shortened(self, record: Record) -> Record:
        """Return the record with the columns of ``brief``."""
        return record

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        found = list(self.records(parsed_args))
        if parsed_args.columns or parsed_args.long:
            known = (*self.whole, *(each for each in self.brief if each not in self.whole))
            if unknown := [each for each in parsed_args.columns if each not in known]:
                raise connection.CommandFailed(f"there is no column {unknown[0]}: there are {', '.join(known)}")
            if self.is_table(parsed_args):
                records = [_readable(each, self.shortened(each)) for each in found]
            elif all(each in self.whole for each in parsed_args.columns):
                records = found
            else:
                # A column of the brief table: programs get what people see.
                records = [{**self.shortened(each), **each} for each in found]
            return command.table(known if parsed_args.columns else self.whole, records)
        if not self.is_table(parsed_args):
            return command.table(self.whole, found)
        return command.table(self.columns(found), _with_short_uuids([self.shortened(each) for each in found]))

    def columns(self, found: Sequence[Record]) -> Sequence[str]:
        """Return those columns of ``brief`` that have information about these records."""
        return self.brief

    def run(self, parsed_args: argparse.Namespace) -> int:
        if not parsed_args.watch:
            return super().run(parsed_args)
        try:
            while True:
                plain_output.clear(self.app.stdout)
                super().run(parsed_args)
                self.app.stdout.flush()
                self.sleep(parsed_args.watch)
        except KeyboardInterrupt:
            return 0


def _readable(record: Record, short: Record) -> Record:
    """Return a record whole, but with mappings, and lists of them, as the brief table has them."""
    return {**short, **{name: each for name, each in record.items() if not _is_structured(each)}}


def _is_structured(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(each, dict) for each in value))


def some(names: Sequence[object], most: int = 3) -> str:
    """Return the number of names and the first of them."""
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
    """Return the least length, from 8 on, at which the uuids differ."""
    length = _SHORT_UUID
    while len({each[:length] for each in uuids}) < len(uuids):
        length += 1
    return length


def remark(line: str) -> None:
    """Print a line to standard error, so that it is not part of the list."""
    if line:
        print(line, file=sys.stderr, flush=True)
