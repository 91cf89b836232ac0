# SPDX-License-Identifier: Apache-2.0
"""README.md and docs/install.md, as 'make install' reads them; what they copy is in the package."""

from __future__ import annotations

import configparser
import pathlib
import re

import pytest

from tests.install import __main__ as install
from tests.install import blocks

ROOT = pathlib.Path(__file__).parents[3]


@pytest.mark.parametrize(("page", "first", "last"), install.PAGES, ids=[page[0] for page in install.PAGES])
def test_the_commands_of_a_page(page: str, first: str, last: str) -> None:
    """From the packages to a service that is used."""
    text = "\n".join(blocks.commands((ROOT / page).read_text(), first, last))
    steps = [
        "apt install",
        "rabbitmqctl add_user",
        "pip install",
        "ln -sf",
        "useradd",
        "systemctl enable --now",
        "fleet boot",
    ]
    assert all(step in text for step in steps)
    assert "rabbit_quorum_queue = true" in text


@pytest.mark.parametrize("unit", sorted((ROOT / "etc/fleet/systemd").glob("*.service")), ids=lambda path: path.stem)
def test_units_run_what_the_pages_install(unit: pathlib.Path) -> None:
    """The program of /opt/fleet, as the user that the pages make."""
    parsed = configparser.ConfigParser(interpolation=None, strict=False, delimiters="=")
    parsed.read_string(unit.read_text())
    service = parsed["Service"]
    assert f"/opt/fleet/bin/{unit.stem} --config-file /etc/fleet/fleet.conf" == service["ExecStart"]
    assert "fleet" == service["User"]


def test_nothing_of_the_index_is_installed_in_our_place() -> None:
    """The index has a package named fleet, which is somebody else's: pages and messages install from the source."""
    named = ["README.md", "docs", "etc", *packages()]
    files = [
        path for name in named for path in [ROOT / name, *(ROOT / name).rglob("*")] if path.suffix in (".md", ".py")
    ]
    assert len(files) > 500
    assert [] == [path for path in files if re.search(r"pip install (-\S+ )*'?fleet\b", path.read_text())]


def packages() -> list[str]:
    """The top-level packages that are installed."""
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read(ROOT / "setup.cfg")
    return [name for name in parsed["options.packages.find"]["include"].split() if not name.endswith("*")]
