# SPDX-License-Identifier: Apache-2.0
"""Draws figures over time, and a map of the fleet, with matplotlib (the extra ``plot``).

The option ``--plot`` of ``fleet whatif`` and ``fleet replay`` calls it.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy

from fleet.json_codec import JSONMapping
from fleet.utilization.history import SECONDS

#: Endings of a file's name that can be drawn.
ENDINGS = (".svg", ".png")
_HOUR_S = 3600.0
#: Inches.
_WIDTH, _PANEL, _MAP = 10.0, 2.2, 3.0
#: Hosts in a row of the map, at least.
_COLUMNS = 20


class NotInstalled(Exception):
    """Matplotlib is missing: install the extra ``plot``."""


class _Panel(NamedTuple):
    """:param lines: name in the legend → value of a sample"""

    title: str
    unit: str
    lines: Mapping[str, Callable[[JSONMapping], float]]


@dataclasses.dataclass(frozen=True)
class _Subject:
    """The subject of a drawing.

    :param used: key of the figures with the use of each place, whose names are below ``place``
    """

    panels: Sequence[_Panel]
    place: str
    used: str


_HOST_PANELS = (
    _Panel(
        "Used",
        "%",
        {"vcpus": lambda each: 100 * each["vcpus_used"], "memory": lambda each: 100 * each["memory_used"]},
    ),
    _Panel("Empty hosts", "hosts", {"": lambda each: each["hosts_empty"]}),
    _Panel("Stranded: free, but the next request does not fit", "vcpus", {"": lambda each: each["stranded_vcpus"]}),
    _Panel("Refused until now", "instances", {"": lambda each: each["refused"]}),
)
_POOL_PANELS = (
    _Panel("Promised to volumes", "% of capacity", {"": lambda each: 100 * each["provisioned"]}),
    _Panel("Pools without volumes", "pools", {"": lambda each: each["pools_empty"]}),
    _Panel("Largest thin volume that fits", "GiB", {"": lambda each: each["largest_gb"]}),
    _Panel("Refused until now", "volumes", {"": lambda each: each["refused"]}),
)
_SUBJECTS = (_Subject(_HOST_PANELS, "host", "hosts_used"), _Subject(_POOL_PANELS, "pool", "pools_used"))


def require() -> None:
    """:raises NotInstalled:"""
    try:
        import matplotlib  # noqa: F401 - optional
    except ImportError:
        raise NotInstalled(
            "matplotlib is not installed: pip install '.[plot]' in the directory of the source"
        ) from None


def draw(path: pathlib.Path, scenarios: Mapping[str, JSONMapping]) -> None:
    """Write a drawing; the ending of ``path`` (one of :data:`ENDINGS`) is its format.

    :param scenarios: name → ``over_time``, and ``hosts_used`` or ``pools_used``, as the histories of
        :mod:`fleet.utilization.history` return them
    :raises NotInstalled:
    :raises OSError:
    """
    require()
    from matplotlib.figure import Figure

    known = next(iter(scenarios.values()))
    (subject,) = [each for each in _SUBJECTS if each.used in known]
    panels, count = subject.panels, len(subject.panels)
    figure = Figure(figsize=(_WIDTH, _PANEL * count + _MAP), layout="constrained")
    grid = figure.add_gridspec(count + 1, len(scenarios), height_ratios=[*[_PANEL] * count, _MAP])
    first = None
    for number, panel in enumerate(panels):
        axes = figure.add_subplot(grid[number, :], sharex=first)
        first = first or axes
        _draw_panel(axes, panel, scenarios, is_last=number == count - 1)
    maps = [figure.add_subplot(grid[-1, column]) for column in range(len(scenarios))]
    # An overcommitted host, and an over-subscribed pool, has more than 100 %.
    largest = max((each["used"] for figures in scenarios.values() for each in figures[subject.used]), default=0.0)
    images = [
        _draw_map(axes, name, subject, figures[subject.used], max(100.0, 100 * largest))
        for axes, (name, figures) in zip(maps, scenarios.items(), strict=True)
    ]
    figure.colorbar(images[0], ax=maps, label="used, %")
    figure.savefig(path, format=path.suffix[1:].lower(), metadata={"Date": None} if path.suffix == ".svg" else None)


def _draw_panel(axes: Any, panel: _Panel, scenarios: Mapping[str, JSONMapping], is_last: bool) -> None:
    for number, (name, figures) in enumerate(scenarios.items()):
        samples = figures["over_time"]["samples"]
        scale = _HOUR_S if figures["over_time"]["axis"] == SECONDS else 1.0
        at = [each["at"] / scale for each in samples]
        for style, (line, value) in zip(("-", "--"), panel.lines.items(), strict=False):
            label = ", ".join(part for part in (name if len(scenarios) > 1 else "", line) if part)
            marker = "o" if len(samples) == 1 else None
            axes.plot(
                at,
                list(map(value, samples)),
                style,
                drawstyle="steps-post",
                color=f"C{number}",
                label=label or None,
                marker=marker,
            )
    axes.set_title(panel.title, loc="left", fontsize="medium")
    axes.set_ylabel(panel.unit)
    axes.set_ylim(0, max(axes.get_ylim()[1], 1))
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="best", fontsize="small")
    if is_last:
        axis = next(iter(scenarios.values()))["over_time"]["axis"]
        axes.set_xlabel("hours" if axis == SECONDS else "requests")
    else:
        axes.tick_params(labelbottom=False)


def _draw_map(axes: Any, name: str, subject: _Subject, used: Sequence[JSONMapping], most: float) -> Any:
    """Draw one cell per host or pool, in the order of their names."""
    shares = [100 * each["used"] for each in sorted(used, key=lambda each: each[subject.place])]
    columns = min(max(_COLUMNS, math.ceil(math.sqrt(len(shares) * 3))), max(len(shares), 1))
    cells = numpy.full(math.ceil(len(shares) / columns) * columns or 1, numpy.nan)
    cells[: len(shares)] = shares
    image = axes.imshow(
        cells.reshape(-1, columns), vmin=0, vmax=most, cmap="viridis_r", aspect="equal", interpolation="nearest"
    )
    axes.set_title(f"{len(shares)} {subject.place}s at the end: {name}", loc="left", fontsize="medium")
    # White lines between the cells.
    axes.set_xticks(numpy.arange(columns - 1) + 0.5, minor=True)
    axes.set_yticks(numpy.arange(len(cells) // columns - 1) + 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=max(0.2, 20 / columns))
    axes.tick_params(which="both", left=False, bottom=False, labelleft=False, labelbottom=False)
    return image
