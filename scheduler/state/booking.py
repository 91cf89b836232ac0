# SPDX-License-Identifier: Apache-2.0
"""Picks that the database does not show yet. What is booked is subtracted from its host.

::

    picked ──▶ booked ──▶ released   the feed shows the instance: claimed there, elsewhere, given back, failed, deleted;
                  │                  or it is requested again
                  └─────▶ expired    the feed has not shown it within ``scheduler_booking_timeout``

A source that shows what is used apart from the instance may count it earlier: those columns of the booking are settled.
It may count it later as well: then the booking stays, and the instance is shown where it is.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from scheduler.engine.hosts.consumption import Consumption, Taking
from scheduler.engine.hosts.table import Key


@dataclasses.dataclass(frozen=True, slots=True)
class Booking:
    """``amounts`` are what the instance takes of its host; ``came_from`` is the host that it was on before.

    ``entry`` is what the index of instances shows on the host until the database does. ``told`` is True if another
    scheduler booked it, and sent a cast.
    """

    instance_uuid: str
    key: Key
    amounts: Consumption
    expires_at: float
    entry: Any
    came_from: str | None = None
    told: bool = False


class Bookings:
    """The unconfirmed picks of this process, and those that other schedulers have sent in their casts.

    Not thread-safe: the host manager holds the lock.
    """

    def __init__(self) -> None:
        #: The key is ``Booking.told``. Each part is in order of booking, which is the order of expiry.
        self._bookings: dict[bool, dict[str, Booking]] = {False: {}, True: {}}
        self._totals: dict[Key, collections.Counter[str]] = {}
        #: The number of bookings of each node that has any. Their totals may be 0.
        self._counts: collections.Counter[Key] = collections.Counter()
        #: Bookings of something rare, in their order.
        self._rare: dict[Key, dict[str, Booking]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._bookings.values()))

    def __iter__(self) -> Iterator[Booking]:
        return itertools.chain.from_iterable(each.values() for each in self._bookings.values())

    def get(self, instance_uuid: str) -> Booking | None:
        return self._bookings[False].get(instance_uuid) or self._bookings[True].get(instance_uuid)

    def book(self, booking: Booking) -> None:
        """The instance must not be booked already."""
        self._bookings[booking.told][booking.instance_uuid] = booking
        self._counts[booking.key] += 1
        totals = self._totals.setdefault(booking.key, collections.Counter())
        for name, amount in booking.amounts.numbers.items():
            totals[name] += amount  # type: ignore[assignment]
        if booking.amounts.rare:
            self._rare.setdefault(booking.key, {})[booking.instance_uuid] = booking

    def release(self, instance_uuid: str) -> Booking | None:
        """Remove the booking of an instance, and return it if there was one."""
        booking = self._bookings[False].pop(instance_uuid, None) or self._bookings[True].pop(instance_uuid, None)
        if booking is None:
            return None
        self._totals[booking.key].subtract(booking.amounts.numbers)
        self._counts[booking.key] -= 1
        if not self._counts[booking.key]:
            del self._totals[booking.key], self._counts[booking.key]
        if booking.amounts.rare:
            del self._rare[booking.key][instance_uuid]
            if not self._rare[booking.key]:
                del self._rare[booking.key]
        return booking

    def settle(self, instance_uuid: str, key: Key, columns: frozenset[str]) -> None:
        """Drop ``columns`` from a booking of this node: its row counts the instance there. The rest stays booked."""
        booking = self.get(instance_uuid)
        if booking is None or booking.key != key or columns.isdisjoint(booking.amounts.numbers):
            return
        counted = {name: amount for name, amount in booking.amounts.numbers.items() if name in columns}
        rest = {name: amount for name, amount in booking.amounts.numbers.items() if name not in columns}
        self._totals[key].subtract(counted)
        amounts = dataclasses.replace(booking.amounts, numbers=rest)
        # The order of expiry stays: the key of a dict keeps its place.
        self._bookings[booking.told][instance_uuid] = settled = dataclasses.replace(booking, amounts=amounts)
        if booking.amounts.rare:
            self._rare[key][instance_uuid] = settled

    def show(self, instance_uuid: str) -> None:
        """Note that the feed shows a booked instance on its host, which does not count it yet."""
        booking = self.get(instance_uuid)
        assert booking is not None
        shown = dataclasses.replace(booking, came_from=booking.key[0])
        self._bookings[booking.told][instance_uuid] = shown
        if booking.amounts.rare:
            self._rare[booking.key][instance_uuid] = shown

    def totals(self, key: Key) -> Mapping[str, float]:
        """Return the sums of the bookings on a node, by column."""
        return self._totals.get(key, {})

    def takings(self, key: Key, name: str, but: str | None = None) -> list[Taking]:
        """Return what is booked of a rare value of a node, oldest first, without the booking of the instance ``but``."""
        booked = (each.amounts.rare.get(name) for uuid, each in self._rare.get(key, {}).items() if uuid != but)
        return [taking for taking in booked if taking is not None]

    def overdue(self, now: float) -> list[str]:
        """Return the uuids of expired bookings, oldest first."""
        late: list[str] = []
        for in_order in self._bookings.values():
            expired = itertools.takewhile(lambda booking: booking.expires_at <= now, in_order.values())
            late += [booking.instance_uuid for booking in expired]
        return late
