# SPDX-License-Identifier: Apache-2.0
"""Picks that the database does not show yet.

::

    picked ──▶ booked ──▶ released   the feed shows the instance: claimed there, elsewhere, given back, failed, deleted
                  │                  or it is asked for again
                  └─────▶ expired    nothing was heard of it for too long

What is booked is subtracted from its host until then.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping

from scheduler.host_table import Key


@dataclasses.dataclass(frozen=True, slots=True)
class Booking:
    """``amounts`` are what the instance adds to the columns of its host; ``came_from`` is the host it was on before."""

    instance_uuid: str
    key: Key
    amounts: Mapping[str, float]
    expires_at: float
    came_from: str | None = None


class Ledger:
    """The unconfirmed picks of this process. Not thread-safe: the host manager holds the lock."""

    def __init__(self) -> None:
        # In order of booking, which is the order of expiry.
        self._bookings: collections.OrderedDict[str, Booking] = collections.OrderedDict()
        self._totals: dict[Key, collections.Counter[str]] = {}

    def __len__(self) -> int:
        return len(self._bookings)

    def get(self, instance_uuid: str) -> Booking | None:
        return self._bookings.get(instance_uuid)

    def book(self, booking: Booking) -> None:
        """The instance must not be booked already."""
        self._bookings[booking.instance_uuid] = booking
        totals = self._totals.setdefault(booking.key, collections.Counter())
        for name, amount in booking.amounts.items():
            totals[name] += amount  # type: ignore[assignment]

    def release(self, instance_uuid: str) -> Booking | None:
        """Strike the booking out; returns it if there was one."""
        booking = self._bookings.pop(instance_uuid, None)
        if booking is None:
            return None
        totals = self._totals[booking.key]
        totals.subtract(booking.amounts)
        if not any(totals.values()):
            del self._totals[booking.key]
        return booking

    def totals(self, key: Key) -> Mapping[str, float]:
        """The sum of what is booked on a node."""
        return self._totals.get(key, {})

    def overdue(self, now: float) -> list[str]:
        """Instances whose booking has expired, oldest first."""
        late = []
        for booking in self._bookings.values():
            if booking.expires_at > now:
                break
            late.append(booking.instance_uuid)
        return late
