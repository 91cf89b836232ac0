# SPDX-License-Identifier: Apache-2.0
"""Argument types for argparse.

The parsers of the ``fleet`` commands use them. An error names the value and what is allowed.
"""

from __future__ import annotations

import argparse
import pathlib

from oslo_utils import uuidutils

from fleet.clock import durations

#: The largest whole number of an argument: counts and seconds beyond it are mistakes.
_MOST = 2**31 - 1
#: The most entries of one answer.
_MOST_ENTRIES = 1000
#: The most bytes of a file. What is sent of one must be much smaller.
_MOST_BYTES = 2**20


def pair(text: str) -> tuple[str, str]:
    """An argparse type: ``KEY=VALUE``."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def text(given: str) -> str:
    """An argparse type: a text of at least one character."""
    if not given:
        raise argparse.ArgumentTypeError("must not be empty")
    return given


def uuid(given: str) -> str:
    """An argparse type: a uuid."""
    if not uuidutils.is_uuid_like(given):
        raise argparse.ArgumentTypeError(f"{given!r} is no uuid")
    return given


def positive(text: str) -> int:
    """An argparse type: a whole number from 1."""
    return _whole(text, 1)


def entries(text: str) -> int:
    """An argparse type: a number of entries that one answer may have."""
    return _whole(text, 1, most=_MOST_ENTRIES)


def natural(text: str) -> int:
    """An argparse type: a whole number from 0."""
    return _whole(text, 0)


def size(text: str) -> int:
    """An argparse type: a number of bytes."""
    return _whole(text, 0, most=2**63 - 1)


def file(text: str) -> bytes:
    """An argparse type: the content of a file."""
    try:
        with pathlib.Path(text).open("rb") as opened:
            # Such as a disk in place of its user data, or a device without an end.
            content = opened.read(_MOST_BYTES + 1)
    except OSError as failure:
        raise argparse.ArgumentTypeError(f"{text} cannot be read: {failure.strerror}") from None
    if len(content) > _MOST_BYTES:
        raise argparse.ArgumentTypeError(f"{text} has more than {_MOST_BYTES} bytes")
    return content


def duration(text: str) -> int:
    """An argparse type: seconds, from ``90``, ``30m``, ``2h`` or ``1d``."""
    try:
        return durations.parse(text)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None


def limit(text: str) -> int:
    """An argparse type: a whole number from 0, or -1 for unlimited."""
    return -1 if text == "-1" else _whole(text, 0, ", or -1 for unlimited")


def _whole(text: str, least: int, more: str = "", most: int = _MOST) -> int:
    """:param more: what else is allowed"""
    # The length first: Python reads no number of thousands of digits.
    if text.isdecimal() and len(text.lstrip("0")) > len(str(most)):
        raise argparse.ArgumentTypeError(f"must be at most {most}, got a number of {len(text)} digits")
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be a whole number from {least}{more}, got {text!r}")
    if int(text) > most:
        raise argparse.ArgumentTypeError(f"must be at most {most}, got {text}")
    return int(text)
