# SPDX-License-Identifier: Apache-2.0
"""The commands of a program for people: an overview by topic, and the list with a line on each.

Called by :mod:`fleet_cli.base.application`, and to build the man pages.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

#: Columns of a terminal that every line fits.
WIDTH = 80
#: Columns before what is said of a command.
_INDENT = 26
#: By topic, names of commands.
Topics = Mapping[str, Sequence[str]]
#: Returns what is said of a command.
Describe = Callable[[str], str]


def first_paragraph(description: str) -> str:
    """Return the first paragraph of a command's description in one line: a sentence may go on in its next line."""
    return " ".join(description.split("\n\n")[0].split())


def overview(topics: Topics, describe: Describe) -> str:
    """Return a page: by topic, the first words of the commands with the words that may follow."""
    return _page(topics, lambda names: _by_first_word(names, describe))


def listing(topics: Topics, describe: Describe) -> str:
    """Return a page: by topic, each command with its description."""
    return _page(topics, lambda names: ((name, describe(name)) for name in names))


def _page(topics: Topics, entries: Callable[[Sequence[str]], Iterable[tuple[str, str]]]) -> str:
    blocks = []
    for title, names in topics.items():
        lines = [line for name, text in entries(names) for line in _entry(name, text)]
        blocks.append("\n".join([title, *lines]))
    return "\n\n".join(blocks) + "\n"


def _by_first_word(names: Sequence[str], describe: Describe) -> Iterator[tuple[str, str]]:
    """Yield each first word with what may follow it, or with what is said of a command of one word."""
    for first, group in itertools.groupby(names, key=lambda name: name.partition(" ")[0]):
        rest = [more for name in group if (more := name.partition(" ")[2])]
        yield first, ", ".join(rest) or describe(first)


def _entry(name: str, text: str) -> list[str]:
    """Return the lines of a name with the text beside it, or below it if the name is long."""
    begin, indent = f"  {name}", " " * _INDENT
    wrapped = textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    if len(begin) + 2 > _INDENT:
        return [begin, *wrapped]
    return [f"{begin:{_INDENT}}{wrapped[0].strip()}", *wrapped[1:]]
