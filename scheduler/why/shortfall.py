# SPDX-License-Identifier: Apache-2.0
"""The numbers behind a refusal: the amount of one resource that hosts have, and the amount that an instance requests.

Filters of amounts return it, and :mod:`scheduler.why.near_misses` compares hosts by it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Self

import numpy

from fleet import capacity
from fleet.json_codec import JSONObject
from scheduler.engine.supervision.failures import WrongAnswer


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

    #: Whether an instance twice as large would ask for twice as much, and fit where twice as much is left.
    scales = True

    @property
    def rank(self) -> int:
        """The order of resources that allow equally many instances: the one with the lowest rank is named as binding."""
        return 0 if self.scales else 1

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
        largest: numpy.ndarray | None = None,
    ) -> Self:
        """Make a shortfall by the arithmetic of :mod:`fleet.capacity`.

        :param largest: the most of one instance, however large the ratio is; None for what is not reserved
        """
        room = total - reserved
        # Negative where more is reserved than there is. A small ratio does not make that less.
        most = numpy.minimum(room if largest is None else largest, room * ratio)
        return cls(resource, unit, asked, capacity.limit(total, reserved, ratio), used, most, consumed)

    @property
    def step(self) -> float:
        """The amount that one more instance takes."""
        return self.asked if self.consumed is None else self.consumed

    def usable(self) -> numpy.ndarray:
        """Return what further instances may have together; at least 0."""
        return numpy.maximum(capacity.usable(self.limit, self.used), 0)

    def lacks(self) -> numpy.ndarray:
        """Return how much is missing for one instance; 0 where there is enough."""
        return numpy.maximum(self.asked - numpy.minimum(capacity.usable(self.limit, self.used), self.most), 0)

    def never(self) -> numpy.ndarray:
        """Return a mask of hosts that one instance would not fit even if they were empty."""
        return self.most < self.asked

    def fits(self, bound: numpy.ndarray | None = None) -> numpy.ndarray:
        """Return how many more instances fit; infinity where nothing is limited, or nothing requested.

        :param bound: per host, how many other resources allow: a count may end there
        """
        room = capacity.usable(self.limit, self.used) - self.asked
        further = numpy.floor(room / self.step) if self.step > 0 else numpy.full(len(room), math.inf)
        return numpy.where((room >= 0) & ~self.never(), further + 1, 0)

    def describe(self, position: int) -> list[JSONObject]:
        """Return the numbers of one host that lacks something, with a ``text`` of them."""
        limit, used, lacks = (float(array[position]) for array in (self.limit, self.used, self.lacks()))
        of = f"{self.unit} of {self.resource}" if self.unit else self.resource
        text = f"lacks {plain(lacks)} {of}: limit {plain(limit)}, used {plain(used)}, asked {plain(self.asked)}"
        most = float(self.most[position])
        never = bool(self.never()[position])
        if never:
            text += f"; even empty it has {plain(most)}"
        return [described(text, self.resource, self.unit, limit, used, self.asked, lacks, never)]


@dataclasses.dataclass(frozen=True)
class ExactShortfall(Shortfall):
    """A resource of which exactly the requested amount must be free. More than that counts as lacking, too."""

    def _free(self) -> numpy.ndarray:
        return capacity.usable(self.limit, self.used)

    def lacks(self) -> numpy.ndarray:
        return numpy.abs(self._free() - self.asked)

    def fits(self, bound: numpy.ndarray | None = None) -> numpy.ndarray:
        """Return 1 where an instance fits: after it, another amount is free. Infinity if it takes nothing."""
        return numpy.where(self._free() == self.asked, 1.0 if self.step else math.inf, 0.0)

    def describe(self, position: int) -> list[JSONObject]:
        limit, used, lacks = (float(array[position]) for array in (self.limit, self.used, self.lacks()))
        free, of = float(self._free()[position]), f"{self.unit} of {self.resource}" if self.unit else self.resource
        text = f"has {plain(free)} {of} free, and exactly {plain(self.asked)} are wanted"
        never = bool(self.never()[position])
        if never:
            text += f"; even empty it has {plain(float(self.most[position]))}"
        return [described(text, self.resource, self.unit, limit, used, self.asked, lacks, never)]


def checked(answer: object, hosts: int) -> Shortfall | None:
    """Check a filter's shortfall. :raises WrongAnswer: it is none, or has not one number for each host"""
    if answer is None:
        return None
    if not isinstance(answer, Shortfall):
        raise WrongAnswer(f"gave {answer!r:.80} as its shortfall, where a Shortfall or None is wanted")
    for name in ("asked", "step"):
        value = getattr(answer, name)
        if not isinstance(value, (int, float, numpy.number)) or not math.isfinite(value):
            raise WrongAnswer(f"gave {value!r:.80} as {name} of its shortfall, where a number is wanted")
    for name in ("limit", "used", "most"):
        counted(getattr(answer, name), hosts, f"{name} of its shortfall")
    counted(answer.lacks(), hosts, "what hosts lack")
    if counted(answer.never(), hosts, "the hosts that never fit").dtype != bool:
        raise WrongAnswer("gave numbers as the hosts that never fit, where booleans are wanted")
    return answer


def counted(values: object, hosts: int, what: str) -> numpy.ndarray:
    """:raises WrongAnswer: not one number (infinite ones are) for each host"""
    if not isinstance(values, numpy.ndarray) or values.dtype.kind not in "fiub" or values.shape != (hosts,):
        raise WrongAnswer(f"gave {values!r:.80} as {what}, where an array of {hosts} numbers is wanted")
    if numpy.isnan(values).any():
        raise WrongAnswer(f"gave NaN as {what}, where a number is wanted")
    return values


def described(
    text: str,
    resource: str,
    unit: str,
    limit: float | None,
    used: float | None,
    asked: float,
    lacks: float,
    never: bool,
    place: str = "",
) -> JSONObject:
    """Return one shortfall in the form of ``docs/explain.md``. Numbers that are unknown or infinite are null."""
    numbers = {"limit": limit, "used": used, "asked": float(asked), "lacks": lacks}
    finite = {name: value if value is not None and math.isfinite(value) else None for name, value in numbers.items()}
    return {"text": text, "resource": resource, "unit": unit, "place": place, **finite, "never_fits": never}


def plain(value: float) -> str:
    """Format a number: a whole number without fraction, any other with two digits."""
    if not math.isfinite(value):
        return "none"
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"
