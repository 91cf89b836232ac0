# SPDX-License-Identifier: Apache-2.0
"""Memory of a process: free memory goes back to the operating system, and cycles are looked for less often.

Called by :mod:`scheduler.state.host_manager` after it has read the whole fleet, and by the program ``fleet``.
"""

from __future__ import annotations

import ctypes
import functools
import gc
from collections.abc import Callable

#: New objects before the garbage collector looks for cycles among them. Python's own number is 700.
_RARELY = 50_000


def collect_rarely() -> None:
    """For a program that makes many objects and keeps them until it ends.

    A sixth of the time of a plan of waves for 1,000 hosts went into looking for cycles among them.
    """
    gc.set_threshold(_RARELY)


def trim() -> None:
    """Call it after a large object was released. Does nothing without the GNU C library."""
    _trim()(0)


@functools.cache
def _trim() -> Callable[[int], object]:
    trim: Callable[[int], object] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim or (lambda _keep: None)
