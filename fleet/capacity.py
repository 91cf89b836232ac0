# SPDX-License-Identifier: Apache-2.0
"""The only arithmetic of total, reserved, ratio, limit, used and free. The scheduler, the claim and the audit use it.

One resource of one node, all in the same unit (MB, GB or count):

::

    0 ──────── reserved ──────────────────── total ─────────────── limit
    │ the host's own │◀── real, for instances ──▶│◀── overcommitted ──▶│
                      ◀──────────── used − reserved ──────▶◀─ usable ─▶

``used`` includes ``reserved``, as nova's ``memory_mb_used`` does. The ratio applies only to what instances can have,
so claims never exceed ``(total − reserved) × ratio``. With nothing reserved the limit is ``total × ratio``, as in
nova's RamFilter, DiskFilter and CoreFilter. Every function takes numbers or numpy columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    # An agent has no other use for numpy, which takes 10 MB.
    import numpy

Number = TypeVar("Number", int, float, "numpy.ndarray")

MB_PER_GB = 1024


def limit(total: Number, reserved: Number, ratio: Number) -> Number:
    """Return the upper bound of ``used``."""
    return (total - reserved) * ratio + reserved


def usable(limit_: Number, used: Number) -> Number:
    """Return the amount that a new instance may use; negative on a host over its limit."""
    return limit_ - used


def free(total: Number, used: Number) -> Number:
    """Return the amount that is physically free (nova's ``free_ram_mb``, ``free_disk_gb``); negative when overcommitted."""
    return total - used


def requested_disk_mb(root_gb: int, ephemeral_gb: int, swap_mb: int) -> int:
    """Return the MB that DiskFilter tests. The claim counts :func:`claimed_disk_gb` only: swap is not held."""
    return MB_PER_GB * (root_gb + ephemeral_gb) + swap_mb


def claimed_disk_gb(root_gb: int, ephemeral_gb: int) -> int:
    """Return the GB that an instance holds of its node's disk."""
    return root_gb + ephemeral_gb


def local_disk_gb(root_gb: int, ephemeral_gb: int, swap_mb: int) -> int:
    """Return the GB that an instance takes of its project's quota ``local_gb``. Swap counts, rounded up."""
    return root_gb + ephemeral_gb - (-swap_mb // MB_PER_GB)


def shown(amount: float, digits: int = 6) -> str:
    """Return the text of an amount: ``digits`` significant digits, or all digits before the point if they are more.

    ``1048576`` and not ``1.04858e+06``: two amounts that differ look different.
    """
    return f"{amount:.0f}" if abs(amount) >= 10 ** (digits - 1) else f"{amount:.{digits}g}"
