# SPDX-License-Identifier: Apache-2.0
"""Parses CPU sets such as ``0-3,^2,8``."""

from __future__ import annotations

import re

from fleet import errors

_PART = re.compile(r"(\^?)(\d{1,5})(?:-(\d{1,5}))?")


def parse(text: str, field: str) -> frozenset[int]:
    """Numbers and ranges, less those with a caret. :raises errors.InvalidInput: naming ``field``"""
    wanted: set[int] = set()
    unwanted: set[int] = set()
    for part in text.replace(" ", "").split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise errors.InvalidInput(field=field, reason=f"{part!r} is not a CPU number or a range such as 0-3 or ^2")
        first = int(match[2])
        last = int(match[3] or first)
        if last < first:
            raise errors.InvalidInput(field=field, reason=f"the range {part!r} is empty")
        (unwanted if match[1] else wanted).update(range(first, last + 1))
    return frozenset(wanted - unwanted)
