# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of storage pools, in GiB. The scheduler's filter and the ledger's claim both follow it.

::

    0 ──── provisioned ────▶│◀──────── virtual_free ────────▶│ total_available
                              thin: (total − reserved) × ratio
                              thick: total − reserved, and never more than is physically free

``provisioned`` is the sum of the sizes of all volumes on the storage. The results and their rounding are cinder's.
"""

from __future__ import annotations

import dataclasses
import math

#: ``max_over_subscription_ratio`` that follows what a pool holds.
AUTO = "auto"
#: Ratio of thin pools that report none, and of automatic ones that have promised nothing, or use nothing so far.
DEFAULT_RATIO = 20.0
#: Requests for a volume type with this extra spec are thick on every pool.
PROVISIONING = "provisioning:type"
THICK = "thick"


@dataclasses.dataclass(frozen=True)
class Space:
    """Capacity of one pool. ``total_gb`` and ``free_gb`` are None if the pool reports "infinite" or "unknown".

    :param ratio: as reported: "auto", a number as text, or None
    """

    total_gb: float | None
    free_gb: float | None
    provisioned_gb: float = 0.0
    reserved_percentage: int = 0
    thin: bool = False
    ratio: str | None = None
    default_ratio: float = DEFAULT_RATIO

    @property
    def over_subscription(self) -> float:
        """The ratio that applies."""
        if not self.thin or self.total_gb is None or self.free_gb is None:
            return 1.0
        if self.ratio == AUTO:
            used = self.total_gb - self.free_gb
            return 1 + self.provisioned_gb / (used + 1) if self.provisioned_gb and used > 0 else DEFAULT_RATIO
        return float(self.ratio) if self.ratio else self.default_ratio

    def factors(self, thin_request: bool) -> Factors:
        """:raises ValueError: the total capacity is infinite or unknown"""
        if self.total_gb is None or self.free_gb is None:
            raise ValueError("The pool's capacity is not a number.")
        reserved = math.floor(self.total_gb * self.reserved_percentage / 100)
        available = self.total_gb - reserved
        if self.thin and thin_request:
            available *= self.over_subscription
            virtual_free = available - self.provisioned_gb
        else:
            virtual_free = min(self.free_gb, available - self.provisioned_gb)
        ratio, percent = (self.provisioned_gb / available, virtual_free / available * 100) if available else (0.0, 0.0)
        return Factors(
            round(available, 2), round(virtual_free, 2), self.provisioned_gb, round(ratio, 2), round(percent, 2)
        )

    def lacks_gb(self, requested_gb: float, thin_request: bool) -> float:
        """Return the GiB that the pool lacks for a request; 0 if the request fits."""
        if requested_gb <= 0 or self.free_gb is None:
            return 0.0
        if self.total_gb is None:
            return float(requested_gb) if self.reserved_percentage else 0.0
        below_one = self.thin and thin_request and self.over_subscription < 1
        if self.total_gb <= 0 or below_one:
            return float(requested_gb)
        return max(0.0, requested_gb - self.factors(thin_request).virtual_free_gb)


@dataclasses.dataclass(frozen=True)
class Factors:
    """The capacity of a pool for one kind of request, each number rounded to two digits by itself, as by cinder."""

    total_available_gb: float
    virtual_free_gb: float
    provisioned_gb: float
    provisioned_ratio: float
    free_percent: float


def asks_for_thin(extra_specs: dict[str, str] | None) -> bool:
    """Return False if the volume type requires thick provisioning."""
    return (extra_specs or {}).get(PROVISIONING) != THICK
