# SPDX-License-Identifier: Apache-2.0
"""The columns of a claim, which instance rows and migration records have in common: ``claimed_memory_mb`` and the others.

The modules of :mod:`conductor_stub` that write and move claims call it, and the audit of the ledger.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

from fleet import stored_json
from fleet.json_codec import JSONList, JSONObject
from fleet.objects import Claimed
from fleet.objects.claimed import UNKNOWN_CELLS, UNKNOWN_DEVICES

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


def held(row: ClaimRow) -> Claimed:
    """:func:`of` for hosts, and to be stored again: cells and devices that cannot be read are unknown, not none."""
    return dataclasses.replace(of(row), numa_topology=cells(row), pci_devices=devices(row))


def cells(row: ClaimRow) -> JSONObject | None:
    """The claimed cells of a row; UNKNOWN_CELLS if they cannot be read."""
    found = row.claimed_numa_topology
    return UNKNOWN_CELLS if stored_json.is_unreadable(found) else found


def devices(row: ClaimRow) -> JSONList | None:
    """The claimed devices of a row; UNKNOWN_DEVICES if they cannot be read."""
    found = row.claimed_pci_devices
    return UNKNOWN_DEVICES if stored_json.is_unreadable(found) else found


NOTHING = columns(Claimed(memory_mb=0, disk_gb=0, vcpus=0))
