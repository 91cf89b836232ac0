# SPDX-License-Identifier: Apache-2.0
"""The consumption of one instance on the host that it is placed on.

Domains make one for each request, and the tables of hosts subtract it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol


class Taking(Protocol):
    """A part of a rare value, such as some PCI devices of a host."""

    def taken_from(self, value: Any) -> object:
        """Return a new value without this part, or ``value`` itself if there is not enough."""


@dataclasses.dataclass(frozen=True)
class Consumption:
    """``numbers`` are added to columns, by name; ``rare`` is taken from the rare values of that name."""

    numbers: Mapping[str, float]
    rare: Mapping[str, Taking] = dataclasses.field(default_factory=dict)


def built(taken: Consumption) -> Consumption:
    """Return the amounts that an instance or a volume takes of its place once it is built."""
    numbers = {name: amount for name, amount in taken.numbers.items() if name != "num_io_ops"}
    return dataclasses.replace(taken, numbers=numbers)
