# SPDX-License-Identifier: Apache-2.0
"""Messages name commands in quotes, such as ``'fleet host enable HOST'``. An operator copies them."""

from __future__ import annotations

import contextlib
import io
import pathlib
import re
from typing import Any

import pytest
from oslo_config import cfg

import fleet
from fleet_cli import main, manage

ROOT = pathlib.Path(fleet.__file__).parents[1]
PACKAGES = ("fleet", "fleet_cli", "conductor_stub", "scheduler", "compute_agent", "volume_agent", "fleet_api")
QUOTED = re.compile(r"'(fleet(?:-manage)? [a-z][^'\n]+)'")
PROGRAMS = {"fleet": main.FleetApp, "fleet-manage": manage.ManageApp}
#: A message may name a command without its arguments, or an option without its value.
SHORTENED = ("are required", "is required", "expected one argument")


def quoted() -> set[str]:
    found: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            found.update(QUOTED.findall(path.read_text()))
    return found


def complaint(line: str) -> str:
    """Return what the program of a command line says of it; "" if the line can be parsed."""
    program, *words = re.sub(r"\{[^}]*\}", "something", line).replace("…", "").split()
    app: Any = PROGRAMS[program](cfg.ConfigOpts())
    group = f"{' '.join(words)} "
    if any(name.startswith(group) for name in app.command_manager.commands):
        return ""
    said = io.StringIO()
    try:
        factory, name, rest = app.command_manager.find_command(words)
        with contextlib.redirect_stderr(said):
            factory(app, None).get_parser(name).parse_args(rest)
    except ValueError as unknown:
        return str(unknown)
    except SystemExit:
        last = said.getvalue().strip().splitlines()[-1]
        return "" if any(each in last for each in SHORTENED) and "unrecognized" not in last else last
    return ""


@pytest.mark.usefixtures("root_logger")
def test_commands_in_messages_can_be_run() -> None:
    """Each exists, with these options and arguments."""
    lines = quoted()
    assert len(lines) > 40
    assert {} == {line: said for line in lines if (said := complaint(line))}
