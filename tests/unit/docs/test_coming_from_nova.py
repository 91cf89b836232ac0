# SPDX-License-Identifier: Apache-2.0
"""docs/coming-from-nova.md names only options, filters, weighers and commands that exist, and all that have nova's names."""

from __future__ import annotations

import pathlib
import re

import pytest

from fleet_cli import main, manage
from scheduler.compute import filters, weights
from tests.unit.docs import known_options

PAGE = (pathlib.Path(__file__).parents[3] / "docs/coming-from-nova.md").read_text()
#: nova's options that have no namesake here.
ONLY_NOVA = {
    "consecutive_build_service_disable_threshold",
    "sync_power_state_interval",
    "resume_guests_state_on_host_boot",
    "running_deleted_instance_action",
    "sqlalchemy",
    "oslo.messaging",
}


KNOWN = known_options.by_group()


def _rows(section: str) -> list[list[str]]:
    """The cells of all tables of a section."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def _option(name: str) -> tuple[str, str]:
    found = re.fullmatch(r"(?:\[(\w+)\] )?(\w+)", name)
    assert found, name
    return found.group(1) or "DEFAULT", found.group(2)


OPTIONS = [name for row in _rows("Options") for name in _names(row[0]) if name not in ONLY_NOVA]
ALIASES = [(row[0], row[1]) for row in _rows("Options") if re.match(r"`\[\w+\] \w+`", row[1])]


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_exists(name: str) -> None:
    """In the group that the page names."""
    group, option = _option(name)
    assert option in KNOWN[group]


def test_what_only_nova_has() -> None:
    """An option that fleet has does not stand among nova's own."""
    assert [] == [name for name in ONLY_NOVA if name in KNOWN["DEFAULT"]]


def test_every_later_name_is_in_the_table() -> None:
    """Each alias that is accepted, and no other."""
    stated = {_option(_names(later)[0]): _option(_names(name)[0]) for name, later in ALIASES}
    accepted = {
        (old.group or group, old.name): (group, option.name)
        for group, options in KNOWN.items()
        for option in options.values()
        for old in option.deprecated_opts
        if old.group in ("scheduler", "filter_scheduler", "workarounds") or option.name == "alias"
    }
    assert accepted == stated


def test_every_filter() -> None:
    """All built-in ones, by name."""
    named = [name for row in _rows("Filters") for name in _names(row[0])]
    assert sorted(each.__name__ for each in filters.all_filters()) == sorted(named)


def test_every_weigher() -> None:
    """All built-in ones, by name."""
    named = [name for row in _rows("Weighers") for name in _names(row[0])]
    assert sorted(each.__name__ for each in weights.all_weighers()) == sorted(named)


@pytest.mark.parametrize("command", [name for row in _rows("Commands")[1:] for name in _names(row[1])])
def test_a_command_exists(command: str) -> None:
    """Of ``fleet`` or ``fleet-manage``; its option, if one is named, is in its help."""
    program, _, rest = command.partition(" ")
    name, _, option = rest.partition(" --")
    of_fleet = {each.name: each.load() for each in main.entry_points()}
    commands = of_fleet if program == "fleet" else dict(manage.COMMANDS)
    assert name in commands
    assert not option or f"--{option}" in commands[name](None, None).get_parser(command).format_help()
