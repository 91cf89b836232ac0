# SPDX-License-Identifier: Apache-2.0
"""Parses CPU sets such as ``0-3,^2,8``. :mod:`fleet.hardware.constraints` reads them in flavors and images."""

from __future__ import annotations

import re

from fleet import errors

_PART = re.compile(r"(\^?)([0-9]{1,5})(?:-([0-9]{1,5}))?")
#: Characters: more than a mask of every second CPU of the largest machine has.
_LONGEST = 65_536


def parse(text: str, field: str) -> frozenset[int]:
    """Numbers and ranges, less those with a caret. :raises errors.InvalidInput: naming ``field``"""
    if len(text) > _LONGEST:
        raise errors.InvalidInput(field=field, reason=f"has {len(text)} characters, at most {_LONGEST} are allowed")
    # As bits: a text of many long ranges costs little more than one of short ones.
    wanted = unwanted = 0
    for part in text.replace(" ", "").split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise errors.InvalidInput(
                field=field, reason=f"has {part!r}, which is neither a CPU number nor a range such as 0-3 or ^2"
            )
        first = int(match[2])
        last = int(match[3] or first)
        if last < first:
            raise errors.InvalidInput(field=field, reason=f"has {part!r}, which is an empty range")
        numbers = (1 << (last + 1)) - (1 << first)
        if match[1]:
            unwanted |= numbers
        else:
            wanted |= numbers
    bits = f"{wanted & ~unwanted:b}"
    return frozenset(number for number, bit in enumerate(reversed(bits)) if bit == "1")
