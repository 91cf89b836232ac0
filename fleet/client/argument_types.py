# SPDX-License-Identifier: Apache-2.0
"""Argument types for argparse. An error names the value and what is allowed."""

from __future__ import annotations

import argparse
import pathlib

from fleet.clock import durations


def pair(text: str) -> tuple[str, str]:
    """An argparse type: ``KEY=VALUE``."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def positive(text: str) -> int:
    """An argparse type: a whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, got {text!r}")
    return int(text)


def natural(text: str) -> int:
    """An argparse type: a whole number from 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number from 0, got {text!r}")
    return int(text)


def file(text: str) -> bytes:
    """An argparse type: the content of a file."""
    try:
        return pathlib.Path(text).read_bytes()
    except OSError as failure:
        raise argparse.ArgumentTypeError(f"{text} cannot be read: {failure.strerror}") from None


def duration(text: str) -> int:
    """An argparse type: seconds, from ``90``, ``30m``, ``2h`` or ``1d``."""
    try:
        return durations.parse(text)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None


def limit(text: str) -> int:
    """An argparse type: a whole number from 0, or -1 for unlimited."""
    if text != "-1" and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number from 0, or -1 for unlimited, got {text!r}")
    return int(text)
