# SPDX-License-Identifier: Apache-2.0
"""Draws the manual's plots as SVG, from the CSV files in ``docs/figures``, with the same numbers as a table below.

A page includes one with the directive ``{plot} NAME``. As the drawings, it needs no JavaScript and no network, and takes its
colours from the theme. Lines differ by their dashes and marks, not by colour alone.

A file begins with its title and the name of its vertical axis. Then come the names of the horizontal axis and of the lines,
and a row for each point of the horizontal axis, which is logarithmic::

    # Builds a second
    # builds a second
    agents,PostgreSQL,MariaDB
    1,165,142
    24,149,138
"""

from __future__ import annotations

import csv
import dataclasses
import html
import math
import pathlib
from typing import Any

DIRECTORY = pathlib.Path(__file__).parents[1] / "figures"
_WIDTH, _HEIGHT = 560, 260
_LEFT, _TOP, _BOTTOM, _LEGEND = 56, 16, 48, 240
_DASHES = ("", "7 4", "2 3", "9 3 2 3")


@dataclasses.dataclass(frozen=True)
class Plot:
    title: str
    y_name: str
    x_name: str
    x: tuple[float, ...]
    #: By name, a value for each ``x``.
    lines: dict[str, tuple[float, ...]]


def read(path: pathlib.Path) -> Plot:
    """:raises ValueError: naming the file and the line"""
    texts = path.read_text().splitlines()
    if len(texts) < 4 or not texts[0].startswith("# ") or not texts[1].startswith("# "):
        raise ValueError(f"{path.name}: begins with a title, the vertical axis, and a line of names")
    names, *rows = csv.reader(texts[2:])
    if not 2 <= len(names) <= 1 + len(_DASHES):
        raise ValueError(f"{path.name}, line 3: there are 1 to {len(_DASHES)} lines, not {len(names) - 1}")
    points = [_point(path.name, number, row, len(names)) for number, row in enumerate(rows, 4)]
    lines = {name: tuple(point[column] for point in points) for column, name in enumerate(names[1:], 1)}
    return Plot(texts[0][2:], texts[1][2:], names[0], tuple(point[0] for point in points), lines)


def _point(name: str, number: int, row: list[str], columns: int) -> list[float]:
    try:
        values = [float(cell) for cell in row]
    except ValueError as wrong:
        raise ValueError(f"{name}, line {number}: {wrong}") from None
    if len(values) != columns or values[0] <= 0 or min(values) < 0:
        raise ValueError(f"{name}, line {number}: needs {columns} numbers from 0, the first one above 0")
    return values


def svg(plot: Plot) -> str:
    step = _step(max(max(values) for values in plot.lines.values()))
    top = step * math.ceil(max(max(values) for values in plot.lines.values()) / step)
    low, high = math.log10(min(plot.x)), math.log10(max(plot.x))

    def across(x: float) -> float:
        return _LEFT + (math.log10(x) - low) / ((high - low) or 1.0) * _WIDTH

    def down(y: float) -> float:
        return _TOP + (1 - y / top) * _HEIGHT

    parts = [
        f'<path class="grid" d="M{_LEFT} {down(y):.1f}h{_WIDTH}"/>{_text(_LEFT - 8, down(y) + 4, f"{y:g}", "end")}'
        for y in (step * number for number in range(round(top / step) + 1))
    ]
    parts += [_text(across(x), _TOP + _HEIGHT + 18, f"{x:,g}") for x in plot.x]
    parts.append(_text(_LEFT + _WIDTH / 2, _TOP + _HEIGHT + 38, plot.x_name))
    middle = _TOP + _HEIGHT / 2
    parts.append(f'<g transform="rotate(-90 12 {middle})">{_text(12, middle, plot.y_name)}</g>')
    for number, (name, values) in enumerate(plot.lines.items()):
        places = [(across(x), down(y)) for x, y in zip(plot.x, values, strict=True)]
        parts.append(_line(number, places))
        beside = _LEFT + _WIDTH + 20, _TOP + 12 + 24 * number
        parts.append(_line(number, [beside, (beside[0] + 36, beside[1])]))
        parts.append(_text(beside[0] + 46, beside[1] + 4, name, "start"))
    size = f"{_LEFT + _WIDTH + _LEGEND} {_TOP + _HEIGHT + _BOTTOM}"
    title = html.escape(plot.title)
    return (
        f'<div class="drawing plot"><svg viewBox="0 0 {size}" role="img" aria-label="{title}" '
        f'xmlns="http://www.w3.org/2000/svg"><title>{title}</title>{"".join(parts)}</svg></div>'
    )


def _step(most: float) -> float:
    """Return 1, 2 or 5 times a power of ten, so that there are at most eight lines up to ``most``."""
    power = 10.0 ** math.floor(math.log10(most or 1.0) - 1)
    return next(power * factor for factor in (1, 2, 5, 10, 20, 50) if most <= 8 * power * factor)


def _line(number: int, places: list[tuple[float, float]]) -> str:
    way = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    marks = "".join(_mark(number, x, y) for x, y in places)
    dashes = f' stroke-dasharray="{_DASHES[number]}"' if _DASHES[number] else ""
    return f'<g class="series s{number}"><polyline points="{way}"{dashes}/>{marks}</g>'


def _mark(number: int, x: float, y: float) -> str:
    if number % 2:
        return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text class="small" x="{x:.1f}" y="{y:.1f}" style="text-anchor: {anchor}">{html.escape(text)}</text>'


def table(plot: Plot) -> str:
    """Return the plot's numbers as HTML."""
    names = "".join(f"<th>{html.escape(name)}</th>" for name in (plot.x_name, *plot.lines))
    rows = zip(plot.x, *plot.lines.values(), strict=True)
    cells = "".join("<tr>" + "".join(f"<td>{value:,g}</td>" for value in row) + "</tr>" for row in rows)
    caption = f"<caption>{html.escape(plot.title)}</caption>"
    head = f"<thead><tr>{names}</tr></thead>"
    return f'<div class="table-wrapper"><table class="docutils">{caption}{head}<tbody>{cells}</tbody></table></div>'


def setup(app: Any) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    from docutils import nodes
    from docutils.parsers import rst

    class PlotDirective(rst.Directive):
        required_arguments = 1

        def run(self) -> list[nodes.Node]:
            path = DIRECTORY / f"{self.arguments[0]}.csv"
            for source in (path, __file__):
                self.state.document.settings.env.note_dependency(str(source))
            plot = read(path)
            return [nodes.raw("", svg(plot) + table(plot), format="html")]

    app.add_directive("plot", PlotDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
