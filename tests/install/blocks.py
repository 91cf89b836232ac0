# SPDX-License-Identifier: Apache-2.0
"""The commands of a page, as somebody copies them."""

from __future__ import annotations

import re

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def commands(page: str, first: str, last: str) -> list[str]:
    """Blocks without a language, between the headings ``first`` and ``last``. :raises ValueError: there are none"""
    headings = {found.group(1).strip(): found.start() for found in _HEADING.finditer(page)}
    part = page[headings[first] : headings[last]]
    found = [text for language, text in _FENCE.findall(part) if not language]
    if not found:
        raise ValueError(f"no commands between {first!r} and {last!r}")
    return found
