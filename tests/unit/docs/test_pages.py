# SPDX-License-Identifier: Apache-2.0
"""Pages name files, commands and options that exist."""

from __future__ import annotations

import pathlib
import re

import pytest

from fleet_cli import main, manage
from tests.unit.docs import known_options

ROOT = pathlib.Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
#: A folder of the source, and a file in it.
_PATH = re.compile(
    r"`((?:fleet(?:_api|_cli|_trial)?|scheduler|conductor_stub|compute_agent|tests|etc|docs)/[\w./-]*\w/?)`"
)
#: What is set as code: a block, or a few words in a sentence.
_CODE = re.compile(r"^```[^\n]*\n.*?^```$|(?<!`)`[^`]+`(?!`)", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(?:^ *|`|\$ )(fleet(?:-manage)?) ((?:[a-z][a-z-]+ ?)+)", re.MULTILINE)
#: cliff's own.
_NO_COMMAND = {"help", "complete"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: pathlib.Path) -> None:
    """A reader who follows a path finds the file."""
    named = set(_PATH.findall(page.read_text()))
    assert [] == sorted(path for path in named if not (ROOT / path).exists())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_a_page_names_exist(page: pathlib.Path) -> None:
    """In a block, and in a sentence."""
    known = {"fleet": {name for name, _ in main.COMMANDS}, "fleet-manage": {name for name, _ in manage.COMMANDS}}
    wrong = [
        f"{program} {words.strip()}"
        for code in _CODE.findall(page.read_text())
        for program, words in _COMMAND.findall(code if code.startswith("```") else code.replace("\n", " "))
        if words.split()[0] not in _NO_COMMAND and not _is_command(known[program], words.split())
    ]
    assert [] == wrong


def _is_command(known: set[str], words: list[str]) -> bool:
    """A command's name, or its beginning, and arguments behind it."""
    return any(" ".join(words[:length]) in known for length in range(1, len(words) + 1))


def _options() -> set[tuple[str, str]]:
    """Group and name of every option that our files may have, and of the older and later names that stand for one."""
    known = known_options.by_group(known_options.LIBRARIES)
    names = {(group, name) for group, options in known.items() for name in options}
    aliases = [
        (group, old) for group, options in known.items() for each in options.values() for old in each.deprecated_opts
    ]
    return names | {(old.group or group, old.name) for group, old in aliases}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_that_a_page_names_exist(page: pathlib.Path) -> None:
    """In a block of configuration, and with their group in a sentence."""
    text = page.read_text()
    named = set(re.findall(r"`\[(\w+)\] (\w+)", text))
    for block in re.findall(r"^```ini\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        group = "DEFAULT"
        inside = set()
        for line in block.splitlines():
            header = re.match(r"\[(\w+)\]", line)
            option = re.match(r"(\w+) =", line)
            group = header.group(1) if header else group
            inside |= {(group, option.group(1))} if option else set()
        # The section of a storage backend has any name, and the options of backend_defaults.
        backends = {each for each, name in inside if name == "volume_driver"}
        named |= {("backend_defaults" if each in backends else each, name) for each, name in inside}
    assert [] == sorted(named - _options())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: pathlib.Path) -> None:
    """Those in Markdown's own form, which a reader of the source follows as well."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [] == [target for target in targets if not (page.parent / target).exists()]


@pytest.mark.parametrize(
    "root",
    ["scheduler", "conductor_stub", "compute_agent", "volume_agent", "fleet", "fleet_api", "fleet_cli", "fleet_trial"],
)
def test_the_map_names_every_package(root: str) -> None:
    """The folder map of CONTRIBUTING.md, and the table of docs/architecture.md for the rooms of each service."""
    packages = [path.parent for path in (ROOT / root).rglob("__init__.py") if path.parent != ROOT / root]
    folders = (ROOT / "CONTRIBUTING.md").read_text().split(f"\n{root}/")[1]
    section = re.split(r"\n\w+/ ", folders)[0]
    assert [] == [package.name for package in packages if f"{package.name}/" not in section]
    table = (ROOT / "docs/architecture.md").read_text().split(f"\n| `{root}/` |")[1]
    rows = re.split(r"\n\| `\w+/` \|", table)[0]
    rooms = [package.name for package in packages if package.parent == ROOT / root]
    assert [] == [room for room in rooms if f"`{room}`" not in rows]
