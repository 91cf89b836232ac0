# SPDX-License-Identifier: Apache-2.0
"""The cells of a cloud, and their hosts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

#: The databases and the virtual host of the broker that are outside all cells.
API, CELL0, TOP = "nova_api", "nova_cell0", "nova"


@dataclasses.dataclass(frozen=True)
class Cell:
    """:param vhost: virtual host of the broker for the cell's own messages"""

    name: str
    hosts: Sequence[str]
    database: str
    vhost: str


@dataclasses.dataclass(frozen=True)
class Layout:
    cells: Sequence[Cell]

    @property
    def hosts(self) -> Sequence[str]:
        return [host for cell in self.cells for host in cell.hosts]

    @property
    def is_split(self) -> bool:
        """True if a conductor of its own is above the cells."""
        return any(cell.vhost != TOP for cell in self.cells)

    def cell_of(self, host: str) -> Cell:
        """Return the cell of a host. The controller belongs to the first, if there is no conductor above it."""
        named = [cell for cell in self.cells if host in (*cell.hosts, conductor_of(cell))]
        if named or not self.is_split:
            return (named or list(self.cells))[0]
        return Cell("above", (), CELL0, TOP)


def conductor_of(cell: Cell) -> str:
    return f"conductor-{cell.name}"


ONE_CELL = Layout([Cell("cell1", ("cmp1", "cmp2", "cmp3"), "nova", TOP)])
#: Each with a broker of its own: messages of one cell reach neither the other nor the scheduler.
TWO_CELLS = Layout(
    [
        Cell("cell1", ("cmp1", "cmp2"), "nova_cell1", "cell1"),
        Cell("cell2", ("cmp3", "cmp4"), "nova_cell2", "cell2"),
    ]
)
