# SPDX-License-Identifier: Apache-2.0
"""The manual's plots show what their files say."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import types
from xml.etree import ElementTree

import pytest

DOCS = pathlib.Path(__file__).parents[3] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def _load() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("plots", DOCS / "_ext/plots.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["plots"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


plots = _load()
PATHS = sorted(plots.DIRECTORY.glob("*.csv"))


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_a_plot_is_whole_and_on_a_page(path: pathlib.Path) -> None:
    """It is valid XML with a title; each line has all its points and its name; the table has all numbers."""
    plot = plots.read(path)
    image = ElementTree.fromstring(plots.svg(plot))[0]
    assert plot.title == image.get("aria-label")
    points = [len((line.get("points") or "").split()) for line in image.iter(f"{SVG}polyline")]
    assert [len(plot.x), 2] * len(plot.lines) == points  # the line, and its sample in the legend
    texts = {text.text for text in image.iter(f"{SVG}text")}
    assert {plot.x_name, plot.y_name, *plot.lines} <= texts
    cells = [cell.text for cell in ElementTree.fromstring(plots.table(plot)).iter("td")]
    assert len(plot.x) * (1 + len(plot.lines)) == len(cells)
    assert [f"```{{plot}} {path.stem}\n" in page.read_text() for page in DOCS.glob("*.md")].count(True)


def test_points_are_where_their_values_are(tmp_path: pathlib.Path) -> None:
    """Ten times as many are one step to the right; twice as much is twice as high."""
    path = tmp_path / "a.csv"
    path.write_text("# Title\n# seconds\nhosts,one\n1,0\n10,5\n100,10\n")
    image = ElementTree.fromstring(plots.svg(plots.read(path)))[0]
    line = next(iter(image.iter(f"{SVG}polyline"))).get("points") or ""
    (x0, y0), (x1, y1), (x2, y2) = [map(float, point.split(",")) for point in line.split()]
    assert x2 - x1 == pytest.approx(x1 - x0)
    assert y0 - y2 == pytest.approx(2 * (y0 - y1))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hosts,one\n1,2\n", "begins with a title"),
        ("# T\n# y\nhosts,a,b,c,d,e\n1,1,1,1,1,1\n", "line 3: there are 1 to 4 lines, not 5"),
        ("# T\n# y\nhosts,one\n1,many\n", "line 4: could not convert"),
        ("# T\n# y\nhosts,one\n1,2\n3\n", "line 5: needs 2 numbers"),
        ("# T\n# y\nhosts,one\n0,2\n", "line 4: needs 2 numbers"),
    ],
)
def test_a_wrong_file_is_named_with_the_line(tmp_path: pathlib.Path, text: str, said: str) -> None:
    path = tmp_path / "wrong.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"wrong.csv.*{said}"):
        plots.read(path)
