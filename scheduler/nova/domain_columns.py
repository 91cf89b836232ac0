# SPDX-License-Identifier: Apache-2.0
"""The columns that a compute node of nova has beside those of any node: its cell, and what placement has of it.

Called by the modules beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleet.json_codec import JSONObject
from scheduler.nova.providers import Provider
from scheduler.nova.rows import UNREAD, NodeRow

CELL, NODE_UUID, TRAITS = "cell", "node_uuid", "traits"
#: The trait of a compute node whose service is disabled.
DISABLED = "COMPUTE_STATUS_DISABLED"
#: Whether the cell of the node is disabled: then nova gives it no new servers.
CELL_DISABLED = "cell_disabled"
#: Whether placement has the node: a number of :data:`UNKNOWN`, :data:`KNOWN`, :data:`UNREAD_PLACEMENT`.
OFFERED = "offered"
UNKNOWN, KNOWN, UNREAD_PLACEMENT = 0, 1, 2
#: Resource class → beginning of the names of its columns.
CLASSES: Mapping[str, str] = {"VCPU": "vcpu", "MEMORY_MB": "ram", "DISK_GB": "disk"}
#: What one instance may have at most, from total less reserved: placement has max_unit for it.
_MOST = {"VCPU": ("vcpu_most", 1), "MEMORY_MB": ("ram_most_mb", 1), "DISK_GB": ("disk_most_mb", 1024)}


def units(resource_class: str) -> tuple[str, str, str]:
    """Return the columns with min_unit, max_unit and step_size of a class, in its own units."""
    start = CLASSES[resource_class]
    return f"{start}_min_unit", f"{start}_max_unit", f"{start}_step_size"


NUMBERS: dict[str, type] = {
    OFFERED: int,
    CELL_DISABLED: bool,
    **{column: int for name in CLASSES for column in units(name)},
}


def numbers(row: NodeRow) -> dict[str, float]:
    """Return the columns of :data:`NUMBERS`, and the others that placement decides."""
    provider, of_cell = row.provider, {CELL_DISABLED: row.cell_disabled}
    if provider is UNREAD or provider is None:
        found = {OFFERED: UNREAD_PLACEMENT if provider is UNREAD else UNKNOWN, **of_cell}
        return {**dict.fromkeys(NUMBERS, 1), **found}
    return {OFFERED: KNOWN, **of_cell, **_units(provider)}


def _units(provider: Provider) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in CLASSES:
        inventory = provider.inventory(name)
        found.update(zip(units(name), (inventory.min_unit, inventory.max_unit, inventory.step_size), strict=True))
        most, factor = _MOST[name]
        found[most] = inventory.max_unit * factor
    return found


def shared(row: NodeRow) -> JSONObject:
    provider = row.provider
    return {CELL: row.cell_uuid, TRAITS: frozenset() if provider is None else provider.traits}
