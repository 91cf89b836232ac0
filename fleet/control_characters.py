# SPDX-License-Identifier: Apache-2.0
"""Escapes control characters in text that others have written, before a log or a terminal shows it, or a ledger stores it.

A newline would forge a line of a log, and an escape sequence makes a terminal do what its author wants. Names with such
characters are refused where they are parsed; faults of guests and messages of other programs are only shown.
"""

from __future__ import annotations

import re

#: C0 and C1 controls, the two ends of lines that are no ASCII, and half a surrogate pair, which no database and no message
#: can have; a tab does no harm.
_ANY = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_BUT_NEWLINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NAMED = {"\n": "\\n", "\r": "\\r"}


def has_any(text: str) -> bool:
    """Return True if ``text`` has a control character or an end of a line."""
    return not text.isprintable() and _ANY.search(text) is not None


def one_line(text: str) -> str:
    """Return ``text`` with each control character escaped, such as ``\\x1b``, and each end of a line."""
    # Much faster than a search, and true of nearly all.
    return text if text.isprintable() else _ANY.sub(_escaped, text)


def lines(text: str) -> str:
    """Return ``text`` with its lines, and with every other control character escaped."""
    return _BUT_NEWLINES.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    code = f"\\x{ord(character):02x}" if ord(character) < 0x100 else f"\\u{ord(character):04x}"
    return _NAMED.get(character, code)
