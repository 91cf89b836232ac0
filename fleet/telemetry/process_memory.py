# SPDX-License-Identifier: Apache-2.0
"""Gives memory that is free back to the operating system: the C library keeps it for a next time that may never come."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable


def trim() -> None:
    """After something large was let go. Does nothing where the C library cannot (it is GNU's that can)."""
    _trim()(0)


@functools.cache
def _trim() -> Callable[[int], object]:
    trim: Callable[[int], object] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim or (lambda _keep: None)
