# SPDX-License-Identifier: Apache-2.0
"""Draws the manual's diagrams as SVG, from the text files in ``docs/drawings``.

A page includes one with the directive ``{drawing} NAME``. The SVG is part of the page: it needs no JavaScript and no
network, and takes its colours from the theme, so that it can be read in light and in dark mode.

A file is either a ``graph`` (boxes on a grid and arrows between them) or a ``sequence`` (lanes and messages between them)::

    graph: The life of a build            sequence: The life of a build
    scheduling @ 1,0                      lanes: client | conductor
    placing @ 1,1                         client -> conductor: create
    scheduling -> placing: taken          conductor --> client: uuids
                                          note conductor: the row is written

``-->`` is drawn dashed. `` / `` breaks a label. ``#`` begins a comment.
"""

from __future__ import annotations

import dataclasses
import html
import math
import pathlib
import re
from typing import Any

DIRECTORY = pathlib.Path(__file__).parents[1] / "drawings"
_BOX = re.compile(
    r"(?P<name>[^@]+?) @ (?P<column>-?[\d.]+),(?P<row>-?[\d.]+)(?: (?P<kind>plain|end|group))?(?:: (?P<below>.+))?"
)
_ARROW = re.compile(r"(?P<source>.+?) (?P<line>-->|->) (?P<target>.+?)(?: ~(?P<bend>-?\d+))?(?:: (?P<label>.+))?")
_NOTE = re.compile(r"note (?P<lane>[^:]+): (?P<text>.+)")

_COLUMN, _ROW = 280, 104
_WIDTH, _HEIGHT = 160, 40
_LANE, _STEP = 172, 46
#: Average width of a character at 13 pixels.
_CHARACTER = 7.0


@dataclasses.dataclass(frozen=True)
class Box:
    name: str
    column: float
    row: float
    kind: str = ""
    below: str = ""

    @property
    def x(self) -> float:
        return self.column * _COLUMN

    @property
    def y(self) -> float:
        return self.row * _ROW

    @property
    def height(self) -> float:
        return _HEIGHT + 16 * len(_lines(self.below)) if self.below else _HEIGHT


@dataclasses.dataclass(frozen=True)
class Arrow:
    source: str
    target: str
    label: str = ""
    dashed: bool = False
    #: By how many pixels a graph's arrow is bent to its left.
    bend: int = 0


@dataclasses.dataclass(frozen=True)
class Note:
    lane: str
    text: str


@dataclasses.dataclass(frozen=True)
class Drawing:
    kind: str
    title: str
    boxes: tuple[Box, ...]
    lanes: tuple[str, ...]
    steps: tuple[Arrow | Note, ...]

    @property
    def arrows(self) -> list[Arrow]:
        return [step for step in self.steps if isinstance(step, Arrow)]


def read(name: str) -> Drawing:
    """:raises ValueError: a line is none of the forms above, or an arrow leads to a box that is not there"""
    lines = (DIRECTORY / f"{name}.txt").read_text().splitlines()
    texts = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    kind, _, title = texts[0].partition(": ")
    boxes: list[Box] = []
    lanes: tuple[str, ...] = ()
    steps: list[Arrow | Note] = []
    for text in texts[1:]:
        if text.startswith("lanes: "):
            lanes = tuple(lane.strip() for lane in text.removeprefix("lanes: ").split("|"))
        elif note := _NOTE.fullmatch(text):
            steps.append(Note(note["lane"], note["text"]))
        elif box := _BOX.fullmatch(text):
            boxes.append(
                Box(box["name"], float(box["column"]), float(box["row"]), box["kind"] or "", box["below"] or "")
            )
        elif arrow := _ARROW.fullmatch(text):
            dashed, bend = arrow["line"] == "-->", int(arrow["bend"] or 0)
            steps.append(Arrow(arrow["source"], arrow["target"], arrow["label"] or "", dashed, bend))
        else:
            raise ValueError(f"{name}.txt: {text!r} is neither a box, an arrow nor a note")
    known = {box.name for box in boxes} | set(lanes)
    for step in steps:
        for end in (step.lane,) if isinstance(step, Note) else (step.source, step.target):
            if end not in known:
                raise ValueError(f"{name}.txt: no box or lane is called {end!r}")
    return Drawing(kind, title, tuple(boxes), lanes, tuple(steps))


def svg(drawing: Drawing) -> str:
    parts, (left, top, right, bottom) = _graph(drawing) if drawing.kind == "graph" else _sequence(drawing)
    size = f'viewBox="{left:.0f} {top:.0f} {right - left:.0f} {bottom - top:.0f}" width="{right - left:.0f}"'
    title = html.escape(drawing.title)
    return (
        f'<div class="drawing"><svg {size} role="img" aria-label="{title}" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{title}</title>{_HEAD}{''.join(parts)}</svg></div>"
    )


_HEAD = (
    '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" class="head"/></marker></defs>'
)


def _graph(drawing: Drawing) -> tuple[list[str], tuple[float, float, float, float]]:
    boxes = {box.name: box for box in drawing.boxes}
    pairs = {(arrow.source, arrow.target) for arrow in drawing.arrows}
    lines, labels = [], []
    edges: list[tuple[float, float]] = []
    for arrow in drawing.arrows:
        aside = 14 if (arrow.target, arrow.source) in pairs else 0
        line, label, extent = _edge(boxes[arrow.source], boxes[arrow.target], arrow, aside)
        lines.append(line)
        labels.append(label)
        edges += extent
    corners = [(box.x - _WIDTH / 2, box.y - box.height / 2) for box in drawing.boxes]
    corners += [(box.x + _WIDTH / 2, box.y + box.height / 2) for box in drawing.boxes]
    corners += edges
    xs, ys = [x for x, _ in corners], [y for _, y in corners]
    return [*lines, *map(_box, drawing.boxes), *labels], (min(xs) - 6, min(ys) - 6, max(xs) + 6, max(ys) + 6)


def _box(box: Box) -> str:
    radius = 20 if box.kind == "end" else 6
    shape = (
        f'<rect class="box {box.kind}" x="{box.x - _WIDTH / 2:.1f}" y="{box.y - box.height / 2:.1f}" '
        f'width="{_WIDTH}" height="{box.height:.1f}" rx="{radius}"/>'
    )
    first = box.y + 5 - 8 * len(_lines(box.below)) if box.below else box.y + 5
    return (
        shape
        + _text(box.x, first, box.name, "name")
        + (_text(box.x, first + 17, box.below, "small") if box.below else "")
    )


def _edge(source: Box, target: Box, arrow: Arrow, aside: float) -> tuple[str, str, list[tuple[float, float]]]:
    """The line, its label, and the corners of the label."""
    length = math.hypot(target.x - source.x, target.y - source.y)
    # To the left of the way from source to target.
    across = ((target.y - source.y) / length, -(target.x - source.x) / length)
    middle = ((source.x + target.x) / 2 + across[0] * arrow.bend, (source.y + target.y) / 2 + across[1] * arrow.bend)
    start = _border(source, middle, aside, across)
    end = _border(target, middle, aside, across)
    # A quadratic curve passes half way between its control point and the middle of its ends.
    control = (2 * middle[0] - (start[0] + end[0]) / 2, 2 * middle[1] - (start[1] + end[1]) / 2) if arrow.bend else None
    curve = f"Q{control[0]:.1f} {control[1]:.1f} " if control else "L"
    dashed = " dashed" if arrow.dashed else ""
    way = f"M{start[0]:.1f} {start[1]:.1f}{curve}{end[0]:.1f} {end[1]:.1f}"
    line = f'<path class="line{dashed}" d="{way}" marker-end="url(#head)"/>'
    if not arrow.label:
        return line, "", []
    x, y = middle if arrow.bend else ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    wide = max(len(part) for part in _lines(arrow.label)) * _CHARACTER * 0.9 / 2
    # Beside an arrow of a pair, so that neither covers the other.
    x += across[0] * (wide + 6) * bool(aside)
    y += across[1] * 10 * bool(aside) + 4 - 7.5 * (len(_lines(arrow.label)) - 1)
    return line, _label(x, y, arrow.label), [(x - wide, y - 12), (x + wide, y + 15 * len(_lines(arrow.label)))]


def _border(box: Box, towards: tuple[float, float], aside: float, across: tuple[float, float]) -> tuple[float, float]:
    """Where the way from the middle of ``box`` leaves it."""
    x, y = towards[0] - box.x, towards[1] - box.y
    shrink = min(_WIDTH / 2 / abs(x) if x else math.inf, box.height / 2 / abs(y) if y else math.inf)
    return box.x + x * shrink + across[0] * aside, box.y + y * shrink + across[1] * aside


def _sequence(drawing: Drawing) -> tuple[list[str], tuple[float, float, float, float]]:
    at = {lane: index * _LANE for index, lane in enumerate(drawing.lanes)}
    steps, y = [], 30.0
    right = at[drawing.lanes[-1]] + _LANE / 2
    for step in drawing.steps:
        if isinstance(step, Note):
            drawn, y = _note(at[step.lane], y, step.text, right)
        else:
            drawn, y = _message(at[step.source], at[step.target], y, step)
        steps.append(drawn)
    bottom = y + 24
    lanes = [
        f'<path class="lane" d="M{x:.0f} 20V{bottom:.0f}"/>'
        f'<rect class="box" x="{x - 62:.0f}" y="-18" width="124" height="36" rx="6"/>{_text(x, 5, lane, "name")}'
        for lane, x in at.items()
    ]
    return [*lanes, *steps], (-_LANE / 2, -24, right, bottom + 4)


def _message(start: float, end: float, y: float, arrow: Arrow) -> tuple[str, float]:
    lines = _lines(arrow.label)
    y += _STEP - 16 + 15 * (len(lines) - 1)
    dashed = " dashed" if arrow.dashed else ""
    text = _label((start + end) / 2, y - 8 - 15 * (len(lines) - 1), arrow.label)
    return f'<path class="line{dashed}" d="M{start:.0f} {y:.0f}H{end:.0f}" marker-end="url(#head)"/>{text}', y + 14


def _note(x: float, y: float, text: str, right: float) -> tuple[str, float]:
    lines = _lines(text)
    wide = max(len(line) for line in lines) * _CHARACTER * 0.92 + 18
    high = 15 * len(lines) + 10
    left = max(-_LANE / 2 + 4, min(x - wide / 2, right - wide - 4))
    shape = f'<rect class="note" x="{left:.1f}" y="{y + 6:.1f}" width="{wide:.1f}" height="{high}" rx="3"/>'
    return shape + _text(left + wide / 2, y + 22, text, "small"), y + high + 12


def _label(x: float, y: float, text: str) -> str:
    """Text on a line, which a rectangle in the page's colour interrupts."""
    lines = _lines(text)
    wide = max(len(line) for line in lines) * _CHARACTER * 0.88 + 4
    where = f'x="{x - wide / 2:.1f}" y="{y - 12:.1f}" width="{wide:.1f}" height="{15 * len(lines) + 1}"'
    return f'<rect class="behind" {where}/>' + _text(x, y, text, "label")


def _text(x: float, y: float, text: str, kind: str) -> str:
    spans = "".join(
        f'<tspan x="{x:.1f}" dy="{15 if index else 0}">{html.escape(line)}</tspan>'
        for index, line in enumerate(_lines(text))
    )
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{spans}</text>'


def _lines(text: str) -> list[str]:
    return text.split(" / ")


def setup(app: Any) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    from docutils import nodes
    from docutils.parsers import rst

    class DrawingDirective(rst.Directive):
        required_arguments = 1

        def run(self) -> list[nodes.Node]:
            for source in (DIRECTORY / f"{self.arguments[0]}.txt", __file__):
                self.state.document.settings.env.note_dependency(str(source))
            drawing = read(self.arguments[0])
            return [nodes.raw("", svg(drawing), format="html")]

    app.add_directive("drawing", DrawingDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
