# SPDX-License-Identifier: Apache-2.0
"""Picks that the database does not show yet. What is booked is subtracted from its host.

::

    picked ──▶ booked ──▶ released   the feed shows the instance: claimed there, elsewhere, given back, failed, deleted;
                  │                  or it is requested again
                  └─────▶ expired    the feed has not shown it within ``scheduler_booking_timeout``
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping

from scheduler.engine.consumption import Consumption, Taking
from scheduler.engine.table import Key


@dataclasses.dataclass(frozen=True, slots=True)
class Booking:
    """``amounts`` are what the instance takes of its host; ``came_from`` is the host that it was on before."""

    instance_uuid: str
    key: Key
    amounts: Consumption
    expires_at: float
    came_from: str | None = None


class Bookings:
    """The unconfirmed picks of this process. Not thread-safe: the host manager holds the lock."""

    def __init__(self) -> None:
        # In order of booking, which is the order of expiry.
        self._bookings: collections.OrderedDict[str, Booking] = collections.OrderedDict()
        self._totals: dict[Key, collections.Counter[str]] = {}
        #: Bookings of something rare, in their order.
        self._rare: dict[Key, dict[str, Booking]] = {}

    def __len__(self) -> int:
        return len(self._bookings)

    def get(self, instance_uuid: str) -> Booking | None:
        return self._bookings.get(instance_uuid)

    def book(self, booking: Booking) -> None:
        """The instance must not be booked already."""
        self._bookings[booking.instance_uuid] = booking
        totals = self._totals.setdefault(booking.key, collections.Counter())
        for name, amount in booking.amounts.numbers.items():
            totals[name] += amount  # type: ignore[assignment]
        if booking.amounts.rare:
            self._rare.setdefault(booking.key, {})[booking.instance_uuid] = booking

    def release(self, instance_uuid: str) -> Booking | None:
        """Remove the booking of an instance, and return it if there was one."""
        booking = self._bookings.pop(instance_uuid, None)
        if booking is None:
            return None
        totals = self._totals[booking.key]
        totals.subtract(booking.amounts.numbers)
        if not any(totals.values()):
            del self._totals[booking.key]
        if booking.amounts.rare:
            del self._rare[booking.key][instance_uuid]
            if not self._rare[booking.key]:
                del self._rare[booking.key]
        return booking

    def totals(self, key: Key) -> Mapping[str, float]:
        """Return the sum of what is booked on a node, by column."""
        return self._totals.get(key, {})

    def takings(self, key: Key, name: str, but: str | None = None) -> list[Taking]:
        """Return what is booked of a rare value of a node, oldest first, without the booking of the instance ``but``."""
        booked = (each.amounts.rare.get(name) for uuid, each in self._rare.get(key, {}).items() if uuid != but)
        return [taking for taking in booked if taking is not None]

    def overdue(self, now: float) -> list[str]:
        """Return the uuids of expired bookings, oldest first."""
        late = []
        for booking in self._bookings.values():
            if booking.expires_at > now:
                break
            late.append(booking.instance_uuid)
        return late
