# SPDX-License-Identifier: Apache-2.0
"""The health page's look at nova's cells: a silent one takes no scheduler out of service, all of them do."""

from __future__ import annotations

from typing import Any

import pytest

from fleet import errors
from fleet.db.nova.api_queries import Cell
from scheduler.nova import probes


class Databases:
    """Of some cells, by name, whether each answers."""

    def __init__(self, disabled: str = "", **answers: bool) -> None:
        self._cells = [
            Cell(number, f"uuid{number}", name, name == disabled, "url") for number, name in enumerate(answers)
        ]
        self._answers = answers
        self.asked: list[str] = []

    def read(self, _query: Any) -> list[Cell]:
        return self._cells

    def open(self, cell: Cell) -> Any:
        outer = self

        class Opened:
            def read(self, _query: Any) -> None:
                outer.asked.append(cell.name)
                if not outer._answers[cell.name]:
                    raise errors.DatabaseUnavailable(kind="DBConnectionError", problem="refused")

            def dispose(self) -> None:
                pass

        return Opened()

    def ask(self) -> None:
        probes.ask_cells(self, self.open)  # type: ignore[arg-type]


def test_one_silent_cell() -> None:
    databases = Databases(cell1=False, cell2=True)
    databases.ask()
    assert ["cell1", "cell2"] == databases.asked


def test_all_are_silent() -> None:
    with pytest.raises(RuntimeError, match="cell1: .*; cell2: "):
        Databases(cell1=False, cell2=False).ask()


def test_a_disabled_cell_is_not_asked() -> None:
    with pytest.raises(RuntimeError, match="cell2"):
        Databases("cell1", cell1=True, cell2=False).ask()
