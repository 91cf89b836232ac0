# SPDX-License-Identifier: Apache-2.0
"""What hosts have of one resource against what an instance asks: the numbers behind a filter's no."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Self

import numpy

from fleet import capacity


@dataclasses.dataclass(frozen=True)
class Shortfall:
    """One resource on some hosts, in ``unit``; arrays have one element per host, infinite where nothing is limited.

    :param most: what one instance could have of the host if it were empty
    :param consumed: what an instance holds once it is placed, if that is not what it asks for
    """

    resource: str
    unit: str
    asked: float
    limit: numpy.ndarray
    used: numpy.ndarray
    most: numpy.ndarray
    consumed: float | None = None

    @classmethod
    def of(
        cls,
        resource: str,
        unit: str,
        asked: float,
        total: numpy.ndarray,
        reserved: numpy.ndarray,
        ratio: numpy.ndarray,
        used: numpy.ndarray,
        consumed: float | None = None,
    ) -> Self:
        """By :mod:`fleet.capacity`'s arithmetic; no instance is overcommitted against itself (spec/filters §3)."""
        most = (total - reserved) * numpy.minimum(ratio, 1.0)
        return cls(resource, unit, asked, capacity.limit(total, reserved, ratio), used, most, consumed)

    def usable(self) -> numpy.ndarray:
        """What further instances may have, together; not below 0."""
        return numpy.maximum(capacity.usable(self.limit, self.used), 0)

    def lacks(self) -> numpy.ndarray:
        """How much is missing for one instance; 0 where there is enough."""
        return numpy.maximum(self.asked - numpy.minimum(capacity.usable(self.limit, self.used), self.most), 0)

    def never(self) -> numpy.ndarray:
        """Where one instance would not even fit the empty host."""
        return self.most < self.asked

    def fits(self) -> numpy.ndarray:
        """How many instances more; infinite where nothing is limited, or nothing asked."""
        step = self.asked if self.consumed is None else self.consumed
        room = capacity.usable(self.limit, self.used) - self.asked
        if step > 0:
            further = numpy.floor(room / step)
        else:
            further = numpy.full(len(room), math.inf)
        return numpy.where((room >= 0) & ~self.never(), further + 1, 0)

    def describe(self, position: int) -> dict[str, Any]:
        """The numbers of one host, and ``text`` that says them."""
        limit, used, lacks = (float(array[position]) for array in (self.limit, self.used, self.lacks()))
        of = f"{self.unit} of {self.resource}" if self.unit else self.resource
        text = f"lacks {_plain(lacks)} {of}: limit {_plain(limit)}, used {_plain(used)}, asked {_plain(self.asked)}"
        most = float(self.most[position])
        never = most < self.asked
        if never:
            text += f"; even empty it has {_plain(most)}"
        numbers = {"limit": limit, "used": used, "asked": float(self.asked), "lacks": lacks}
        finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
        return {"text": text, "resource": self.resource, "unit": self.unit, **finite, "never_fits": never}


def _plain(value: float) -> str:
    """A whole number without its fraction, any other with two digits."""
    if not math.isfinite(value):
        return "none"
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"
