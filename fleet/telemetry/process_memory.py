# SPDX-License-Identifier: Apache-2.0
"""Returns free memory to the operating system: the C library keeps it for later allocations.

Called by :mod:`scheduler.state.host_manager` after it has read the whole fleet.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable


def trim() -> None:
    """Call it after a large object was released. Does nothing without the GNU C library."""
    _trim()(0)


@functools.cache
def _trim() -> Callable[[int], object]:
    trim: Callable[[int], object] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim or (lambda _keep: None)
