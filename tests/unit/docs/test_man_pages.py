# SPDX-License-Identifier: Apache-2.0
"""The man pages that are installed list every command (``make docs`` writes them)."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from fleet_cli import command_list, main, manage

PAGES = pathlib.Path(__file__).parents[3] / "etc/man"


@pytest.mark.parametrize(
    ("page", "commands"),
    [
        ("fleet.1", {name: main.load(place) for name, place in command_list.COMMANDS}),
        ("fleet-manage.8", dict(manage.COMMANDS)),
    ],
    ids=["fleet", "fleet-manage"],
)
def test_commands(page: str, commands: dict[str, Any]) -> None:
    """Each stands in bold, with the first paragraph of its help below it. If it does not: run ``make docs``."""
    lines = (PAGES / page).read_text().splitlines()
    missing = []
    for name, command in commands.items():
        bold = "\\fB" + _escaped(name) + "\\fP"
        below = lines[lines.index(bold) + 1] if bold in lines else ""
        if below != _escaped(" ".join(command(None, None).get_description().split("\n\n")[0].split())):
            missing.append(name)
    assert [] == missing


def _escaped(text: str) -> str:
    return text.replace("-", "\\-").replace("'", "\\(aq")
