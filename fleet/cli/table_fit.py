# SPDX-License-Identifier: Apache-2.0
"""Makes a table as wide as a terminal: the widest columns give way, and their cells are wrapped."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from cliff import columns

#: A column that is narrower is not read any more: rather is the table too wide.
_LEAST = 8
#: Of each column, and of the table's right edge.
_BORDER, _EDGE = 3, 1


def fitted(names: Sequence[str], rows: Sequence[Sequence[Any]], chosen: Sequence[str], width: int) -> list[list[Any]]:
    """:param chosen: the columns that are shown"""
    texts = [[_text(value) for value in row] for row in rows]
    natural = [
        max([len(name), *(len(line) for row in texts for line in row[number].split("\n"))])
        for number, name in enumerate(names)
    ]
    shown = [number for number, name in enumerate(names) if name in chosen]
    room = width - _EDGE - _BORDER * len(shown)
    widths = shrunk(natural, [len(name) for name in names], shown, room)
    return [
        [
            value if natural[number] <= widths[number] else _wrapped(text, widths[number])
            for number, (value, text) in enumerate(zip(row, line, strict=True))
        ]
        for row, line in zip(rows, texts, strict=True)
    ]


def shrunk(natural: Sequence[int], least: Sequence[int], shown: Sequence[int], room: int) -> list[int]:
    """``natural`` widths, the widest made narrower until those shown have room, but not narrower than their names."""
    widths = list(natural)
    while sum(widths[number] for number in shown) > room:
        able = [number for number in shown if widths[number] > max(least[number], _LEAST)]
        if not able:
            break
        widths[max(able, key=lambda number: widths[number])] -= 1
    return widths


def _text(value: Any) -> str:
    return str(value.human_readable() if isinstance(value, columns.FormattableColumn) else value)


def _wrapped(text: str, width: int) -> str:
    return "\n".join(part for line in text.split("\n") for part in textwrap.wrap(line, width) or [""])
