# SPDX-License-Identifier: Apache-2.0
"""The columns of a claim, which instance rows and migration records have in common: ``claimed_memory_mb`` and the others.

The modules of :mod:`conductor_stub` that write and move claims call it, and the audit of the ledger.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

from fleet.json_codec import JSONList, JSONObject
from fleet.objects import Claimed

_NAMES = tuple(field.name for field in dataclasses.fields(Claimed))


class ClaimRow(Protocol):
    """The columns of a claim, of an instance's row or a record."""

    claimed_vcpus: int
    claimed_memory_mb: int
    claimed_disk_gb: int
    claimed_numa_topology: JSONObject | None
    claimed_pci_devices: JSONList | None


def columns(claim: Claimed) -> dict[str, object]:
    return {f"claimed_{name}": getattr(claim, name) for name in _NAMES}


def of(row: ClaimRow) -> Claimed:
    """The claim of an instance's row, or of a record."""
    return Claimed(**{name: getattr(row, f"claimed_{name}") for name in _NAMES})


NOTHING = columns(Claimed(memory_mb=0, disk_gb=0, vcpus=0))
