# SPDX-License-Identifier: Apache-2.0
"""The threat model names tests that exist, and SECURITY.md is found."""

from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[3]
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
#: Callers that have a line of their own.
CALLERS = (
    *("anybody on the network", "reader", "member", "administrator", "broker user of a client, without a key"),
    *("agent of one host", "agent of a storage backend", "guest"),
)


def rows() -> list[list[str]]:
    """The cells of the table."""
    model = (ROOT / "docs/security.md").read_text().partition("## Threat model")[2].partition("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in model.splitlines() if line[:1] == "|"]
    return cells[2:]


def test_each_line_has_a_test_that_exists() -> None:
    """Renaming a test renames it here."""
    assert 25 <= len(rows())
    for *_cells, last in rows():
        (named,) = _TEST.findall(last)
        assert f"\ndef {named[1]}(" in (ROOT / named[0]).read_text(), named


def test_each_caller_has_a_line() -> None:
    assert set(CALLERS) <= {row[0] for row in rows()}


def test_it_says_what_it_does_not_hold() -> None:
    """Agents that move guests reach each other's libvirt."""
    assert "`migration_uri`" in (ROOT / "docs/security.md").read_text().partition("Out of scope:")[2]


def test_the_way_to_report_is_found() -> None:
    for page in ("README.md", "docs/security.md"):
        assert "SECURITY.md" in (ROOT / page).read_text(), page
