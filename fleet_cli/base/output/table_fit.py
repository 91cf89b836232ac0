# SPDX-License-Identifier: Apache-2.0
"""Fits a table to the terminal: the widest columns become narrower, and their cells are wrapped.

Called by :mod:`fleet_cli.base.listing`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from cliff import columns

#: Least width of a column. The table becomes too wide rather than unreadable.
_LEAST = 8
#: Characters of each column's border, and of the table's right edge.
_BORDER, _EDGE = 3, 1
#: A uuid, with the comma that may follow it: it is copied into the next command, so it stays on one line.
_UUID = re.compile(r"\b[0-9a-f]{8}[0-9a-f-]{28}\b,?")


def fitted(
    names: Sequence[str], rows: Sequence[Sequence[object]], chosen: Sequence[str], width: int
) -> list[list[object]]:
    """Return the rows with wrapped cells.

    :param chosen: the columns that are shown
    """
    texts = [[_text(value) for value in row] for row in rows]
    natural = [
        max([len(name), *(len(line) for row in texts for line in row[number].split("\n"))])
        for number, name in enumerate(names)
    ]
    shown = [number for number, name in enumerate(names) if name in chosen]
    room = width - _EDGE - _BORDER * len(shown)
    least = [max([len(name), *(_unbroken(row[number]) for row in texts)]) for number, name in enumerate(names)]
    widths = shrunk(natural, least, shown, room)
    return [
        [
            value if natural[number] <= widths[number] else _wrapped(text, widths[number])
            for number, (value, text) in enumerate(zip(row, line, strict=True))
        ]
        for row, line in zip(rows, texts, strict=True)
    ]


def shrunk(natural: Sequence[int], least: Sequence[int], shown: Sequence[int], room: int) -> list[int]:
    """Return ``natural`` widths that fit into ``room``: the widest become narrower, but none narrower than ``least``."""
    widths = list(natural)
    while sum(widths[number] for number in shown) > room:
        able = [number for number in shown if widths[number] > max(least[number], _LEAST)]
        if not able:
            break
        widths[max(able, key=lambda number: widths[number])] -= 1
    return widths


def _unbroken(text: str) -> int:
    """Return the width of the longest uuid in ``text``; 0 without one."""
    return max((len(each) for each in _UUID.findall(text)), default=0)


def _text(value: object) -> str:
    return str(value.human_readable() if isinstance(value, columns.FormattableColumn) else value)


def _wrapped(text: str, width: int) -> str:
    wrapped = (textwrap.wrap(line, width, break_on_hyphens=False) or [""] for line in text.split("\n"))
    return "\n".join(part for parts in wrapped for part in parts)
