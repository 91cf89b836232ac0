# SPDX-License-Identifier: Apache-2.0
"""What one instance takes of the host that it is placed on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

#: The rare value that holds a node's NUMA cells and PCI pools, with what is used of them.
HARDWARE = "hardware"


class Taking(Protocol):
    """A part of a value that few hosts have, such as cells or devices."""

    def taken_from(self, value: Any) -> Any:
        """What is left of the value; a new one, the old stays as it is. The same if there is not enough."""


@dataclasses.dataclass(frozen=True)
class Consumption:
    """``numbers`` are added to columns, by name; ``rare`` is taken from the rare values of that name."""

    numbers: Mapping[str, float]
    rare: Mapping[str, Taking] = dataclasses.field(default_factory=dict)
