# SPDX-License-Identifier: Apache-2.0
"""The option ``--plot`` of ``fleet whatif`` and ``fleet replay``, and the samples of a fleet over time.

Both commands draw by it.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from cliff import columns

from fleet.client import connection
from fleet.utilization import plot
from fleet_cli.base import build_arguments


class Samples(columns.FormattableColumn):
    """A count for people, all samples for programs."""

    def human_readable(self) -> str:
        count = len(self._value["samples"])
        return f"{count} samples: use -f json, or --plot" if count > 1 else "1 sample: use -f json, or --plot"


def add_plot(parser: build_arguments.Arguments) -> None:
    endings = " or ".join(plot.ENDINGS)
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE", help=f"Draw the figures over time, and a map of "
                        f"the hosts or pools, to this file ({endings}); needs matplotlib.")  # fmt: skip


def check(path: pathlib.Path | None) -> None:
    """Refuse a drawing that cannot be made, before the work begins. :raises connection.CommandFailed:"""
    if path is None:
        return
    if path.suffix.lower() not in plot.ENDINGS:
        raise connection.CommandFailed(f"--plot {path}: the name must end in {' or '.join(plot.ENDINGS)}")
    if not path.parent.is_dir():
        raise connection.CommandFailed(f"--plot {path}: there is no directory {path.parent}")
    try:
        plot.require()
    except plot.NotInstalled as missing:
        raise connection.CommandFailed(f"--plot: {missing}") from None


def draw(path: pathlib.Path | None, scenarios: Mapping[str, Mapping[str, object]]) -> None:
    """:raises connection.CommandFailed: the file cannot be written"""
    if path is None:
        return
    try:
        plot.draw(path, scenarios)
    except OSError as failed:
        raise connection.CommandFailed(f"--plot {path}: {failed.strerror}") from None
