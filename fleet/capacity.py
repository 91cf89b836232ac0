# SPDX-License-Identifier: Apache-2.0
"""THE arithmetic of total, reserved, ratio, limit, used and free: the scheduler, the claim and the audit all call it.

One resource of one node, all in the same unit (MB, GB or count)::

    0 ──────── reserved ──────────────────── total ─────────────── limit
    │ the host's own │◀── real, for instances ──▶│◀── overcommitted ──▶│
                      ◀──────────── used − reserved ──────▶◀─ usable ─▶

``used`` includes ``reserved`` (as nova's ``memory_mb_used`` does); the ratio stretches only what instances can have, so
that claims never exceed ``(total − reserved) × ratio``. With nothing reserved the limit is nova's ``total × ratio``
(spec: RamFilter, DiskFilter, CoreFilter). Every function takes numbers or numpy columns of them.
"""

from __future__ import annotations

from typing import TypeVar

import numpy

Number = TypeVar("Number", int, float, numpy.ndarray)

MB_PER_GB = 1024


def limit(total: Number, reserved: Number, ratio: Number) -> Number:
    """The ceiling that ``used`` must not pass."""
    return (total - reserved) * ratio + reserved


def usable(limit_: Number, used: Number) -> Number:
    """What a new instance may still ask for; negative on a host that is over its limit."""
    return limit_ - used


def free(total: Number, used: Number) -> Number:
    """What is physically left (nova's ``free_ram_mb``, ``free_disk_gb``); negative when overcommitted."""
    return total - used


def requested_disk_mb(root_gb: int, ephemeral_gb: int, swap_mb: int) -> int:
    """What DiskFilter looks for, in MB. The claim counts :func:`claimed_disk_gb` only: swap is not held."""
    return MB_PER_GB * (root_gb + ephemeral_gb) + swap_mb


def claimed_disk_gb(root_gb: int, ephemeral_gb: int) -> int:
    """What an instance holds of its node's disk, in GB."""
    return root_gb + ephemeral_gb
