# SPDX-License-Identifier: Apache-2.0
"""How Sphinx builds the manual and the man pages: ``make docs``."""

import argparse
import importlib.metadata
import pathlib
import sys
from typing import Any

from fleet_cli import command_list, main, manage
from fleet_cli.base import overview

sys.path.insert(0, str(pathlib.Path(__file__).parent / "_ext"))

project = "fleet"
author = "the fleet developers"
copyright = f"2026, {author}"  # Sphinx's name
release = version = importlib.metadata.version("fleet")

extensions = [
    "myst_parser",
    "oslo_config.sphinxext",  # the option reference, from the options' own help
    "http_reference",  # all requests of the HTTP API, from its document
    "release_notes",  # releasenotes/notes by version and day
    "drawings",  # docs/drawings/*.txt as SVG
    "plots",  # docs/figures/*.csv as SVG
]
html_theme = "furo"
html_title = "fleet"
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
html_static_path = ["_static"]
html_css_files = ["fleet.css"]
exclude_patterns = ["_build", "_ext", "drawings", "figures"]
# Headings are link targets, down to the third level.
myst_heading_anchors = 3
# Transcripts of a shell mix commands and output.
suppress_warnings = ["misc.highlighting_failure"]
# A block without a language is a transcript or a message, not Python.
highlight_language = "text"

man_pages = [
    ("man/fleet", "fleet", "boot and show instances, and operate the fleet", author, 1),
    ("man/fleet-manage", "fleet-manage", "manage the database of fleet", author, 8),
    ("man/fleet-conductor", "fleet-conductor", "accepts build requests and drives each to its end", author, 8),
    ("man/fleet-scheduler", "fleet-scheduler", "chooses hosts for instances", author, 8),
    ("man/fleet-compute", "fleet-compute", "serves a host: reserves resources, starts guests, reports", author, 8),
    ("man/fleet-api", "fleet-api", "serves OpenStack's compute API over HTTP", author, 8),
    ("man/fleet-volume", "fleet-volume", "serves storage backends: makes and removes volumes, reports", author, 8),
]


def setup(app: Any) -> None:
    app.connect("source-read", _add_commands)


#: Stands in the source of a man page where its commands are listed.
_COMMANDS_HERE = ".. commands"
#: Stands in the page of the command line where the other names of commands are listed.
_ALIASES_HERE = ".. aliases"


def _add_commands(_app: Any, document: str, source: list[str]) -> None:
    """Append each command's own help to the page of the command line; list the commands in man pages."""
    if document in _MANUALS:
        source[0] = source[0].replace(_COMMANDS_HERE, _listed(_MANUALS[document]))
    if document != "cli":
        return
    source[0] = source[0].replace(_ALIASES_HERE, _aliases())
    of_fleet = [(each.name, each.load()) for each in main.entry_points()]
    for program, commands in (("fleet", of_fleet), ("fleet-manage", manage.COMMANDS)):
        source[0] += f"\n{program}\n{'=' * len(program)}\n"
        for name, command in commands:
            title = f"{program} {name}"
            text = _help(command(None, None).get_parser(title)).replace("\n", "\n   ")
            source[0] += f"\n{title}\n{'-' * len(title)}\n\n.. code-block:: text\n\n   {text.rstrip()}\n"


def _aliases() -> str:
    rows = [f"   * - ``{alias}``\n     - ``{name}``" for alias, name in command_list.ALIASES.items()]
    head = ".. list-table::\n   :header-rows: 1\n\n   * - Also\n     - Command"
    return "\n".join([head, *rows])


#: By man page, the commands of its program.
_MANUALS = {
    "man/fleet": {
        title: [(name, main.load(place)) for name, place in commands] for title, commands in command_list.TOPICS.items()
    },
    "man/fleet-manage": manage.TOPICS,
}


def _listed(topics: Any) -> str:
    """Return the commands by topic, each with the first paragraph of its help."""
    lines: list[str] = []
    for title, commands in topics.items():
        lines += [title, "-" * len(title), ""]
        for name, command in commands:
            about = overview.first_paragraph(command(None, None).get_description())
            lines += [f"**{name}**", f"    {about}", ""]
    return "\n".join(lines)


def _help(parser: argparse.ArgumentParser) -> str:
    """A command's help without the options for the form of its output, which the page has once for all commands."""
    left_out = [group for group in parser._action_groups if "formatter" in (group.title or "").lower()]
    actions = [action for group in left_out for action in group._group_actions]
    parser._action_groups = [group for group in parser._action_groups if group not in left_out]
    parser._actions = [action for action in parser._actions if action not in actions]
    parser._mutually_exclusive_groups = [
        group for group in parser._mutually_exclusive_groups if not set(group._group_actions) & set(actions)
    ]
    parser.epilog = None
    return parser.format_help()
