# SPDX-License-Identifier: Apache-2.0
"""Tests that docs/http-api.md names, in its section on Tempest: a pattern of names, and why they fail or are skipped."""

from __future__ import annotations

import dataclasses
import fnmatch
import pathlib
import re

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "http-api.md"
_SECTION = "### What Tempest finds"
_ROW = re.compile(r"\|\s*((?:`[^`]+`(?:,\s*)?)+)\s*\|\s*(.+?)\s*\|\s*$")
_WORD = re.compile(r"`([^`]+)`")


@dataclasses.dataclass(frozen=True)
class Known:
    """``patterns`` are of names of tests after ``tempest.api.``, or names of options as ``section.option``."""

    patterns: tuple[str, ...]
    reason: str

    def names(self, word: str) -> bool:
        return any(fnmatch.fnmatchcase(word, each) for each in self.patterns)


def read(page: str) -> list[Known]:
    """Return the rows of the tables of the section."""
    _, _, rest = page.partition(f"{_SECTION}\n")
    section = re.split(r"^#{1,3} ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    rows = filter(None, map(_ROW.match, section.splitlines()))
    return [Known(tuple(_WORD.findall(row[1])), row[2]) for row in rows]


def reason_of(word: str, known: list[Known]) -> str | None:
    """Return why a test fails, or an option is off; None: the page does not say."""
    short = word.removeprefix("tempest.api.")
    return next((each.reason for each in known if each.names(short)), None)
