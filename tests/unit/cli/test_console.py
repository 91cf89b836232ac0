# SPDX-License-Identifier: Apache-2.0
"""What ``fleet server console-log`` prints."""

from __future__ import annotations

import pytest

from fleet_cli.servers import console
from tests.unit.cli import fakes


@pytest.mark.parametrize(("options", "expected"), [("", "one\ntwo\nthree\n"), ("--lines 2", "two\nthree\n")])
def test_console_log(run, options: str, expected: str) -> None:
    """All of it, or its last lines."""
    conductor = fakes.Conductor()
    conductor.answers["get_console_output"] = "one\r\ntwo\r\nthree\r\n"
    status, output, _errors = run(conductor, *f"server console-log web {options}".split())
    assert (0, expected) == (status, output)
    assert ("get_console_output", {"name": "web"}) == conductor.calls[-1]


def test_a_guest_does_not_write_to_the_terminal_of_its_reader() -> None:
    """Colours, titles, bells and carriage returns are left out."""
    assert "red\ta\nb0;title" == console.plain("\x1b[31mred\x1b[0m\ta\r\nb\x1b]0;title\x07\x9b\x00")
