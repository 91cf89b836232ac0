# SPDX-License-Identifier: Apache-2.0
"""A command of a page gives a hint only where the page has shown what reads it."""

from __future__ import annotations

import pathlib
import re

from fleet.objects import request_parts
from scheduler.compute import filters

ROOT = pathlib.Path(__file__).parents[3]
#: A name in capitals stands for any.
_HINT = re.compile(r"--hint ['\"]?([a-z]\w*)=")


def unread(text: str) -> list[str]:
    """The hints of a page whose reader does not stand before them: a built-in filter by its name, or code of the page."""
    found = []
    for match in _HINT.finditer(text):
        name, before = match[1], text[: match.start()]
        readers = [cls.__name__ for cls in filters.CLASSES if request_parts.hint(name) in cls.judges]
        in_code = re.search(rf"^(    )?.*(get\(|\[)['\"]{name}['\"]", before, re.MULTILINE)
        # A line may name the filter after the command.
        line = text[match.start() : text.index("\n", match.start())]
        if not in_code and not any(each in before + line for each in readers):
            found.append(name)
    return found


def test_the_first_example_of_a_hint_has_its_filter() -> None:
    """No default filter reads a hint, so a command with one alone does nothing."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    read = {page: page.read_text() for page in pages}
    assert sum(len(_HINT.findall(text)) for text in read.values()) >= 4
    assert {} == {page.name: names for page, text in read.items() if (names := unread(text))}


def test_a_hint_that_nothing_reads() -> None:
    """It is found, whatever other hints the page explains."""
    assert ["rack"] == unread("SameHostFilter\n$ fleet boot --hint same_host=x --hint rack=r1 web\n")
