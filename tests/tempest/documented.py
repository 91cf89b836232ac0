# SPDX-License-Identifier: Apache-2.0
"""What docs/http-api.md says of Tempest: what a fleet does not have, so that its tests do not run, and which tests fail.

Each row of the two tables has patterns of names and a reason.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import pathlib
import re

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "http-api.md"
#: Headings: of what does not run, and of what fails.
ABSENT, FAILS = "### What Tempest does not try", "### What fails in Tempest"
_ROW = re.compile(r"\|\s*((?:`[^`]+`(?:,\s*)?)+)\s*\|\s*(.+?)\s*\|\s*$")
_WORD = re.compile(r"`([^`]+)`")


@dataclasses.dataclass(frozen=True)
class Known:
    """``patterns`` are of names of tests after ``tempest.api.``, or names of options as ``section.option``."""

    patterns: tuple[str, ...]
    reason: str

    def names(self, word: str) -> bool:
        return any(
            fnmatch.fnmatchcase(word, each) or fnmatch.fnmatchcase(_of_class(word), each) for each in self.patterns
        )


def _of_class(word: str) -> str:
    """Return the class of a fixture, ``setUpClass (CLASS)``, as the name of a test would begin."""
    kind, _, rest = word.partition(" (tempest.api.")
    return f"{rest.removesuffix(')')}.{kind}" if rest else word


def read(page: str, heading: str) -> list[Known]:
    """Return the rows of the table below a heading."""
    _, _, rest = page.partition(f"{heading}\n")
    section = re.split(r"^#{1,3} ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    rows = filter(None, map(_ROW.match, section.splitlines()))
    return [Known(tuple(_WORD.findall(row[1])), row[2]) for row in rows]


def reason_of(word: str, known: list[Known]) -> str | None:
    """Return why a test fails, or an option is off; None: the page does not say."""
    short = word.removeprefix("tempest.api.")
    return next((each.reason for each in known if each.names(short)), None)


def left_out(absent: list[Known]) -> str:
    """Return the regular expression of the tests that do not run; options, which have no module, match none."""
    tests = [fnmatch.translate(f"tempest.api.{each}[*") for known in absent for each in known.patterns]
    classes = [fnmatch.translate(f"*(tempest.api.{each})*") for known in absent for each in known.patterns]
    return "|".join([*tests, *classes])
