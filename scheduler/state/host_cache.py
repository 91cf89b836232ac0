# SPDX-License-Identifier: Apache-2.0
"""The inventory as the change feed shows it, less what is booked.

Plain state without a lock. Called by :mod:`scheduler.planning.copied_fleet` and :mod:`scheduler.state.host_manager`.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from oslo_log import log as logging

from fleet.db.feed.feed import Shown
from fleet.objects import Holding
from fleet.objects.feed_rows import ShownPlace, ShownThing
from fleet.objects.flavor_mix import FlavorMix
from scheduler.engine.decision import Decision
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.consumption import Consumption
from scheduler.engine.hosts.domain import Domain, Held
from scheduler.engine.hosts.inventory import Inventory
from scheduler.engine.hosts.table import Key
from scheduler.state.booking import Booking, Bookings
from scheduler.state.hints import AggregateHint
from scheduler.state.memberships import Memberships
from scheduler.state.services import Services
from scheduler.state.shares import Shares

LOG = logging.getLogger(__name__)

_GONE_REMEMBERED = 10_000
_NOTHING: Mapping[str, object] = types.MappingProxyType({})
_NO_HINT: Mapping[str, str] = types.MappingProxyType({})


class HostCache:
    """Applies changes and bookings. An amount is in the columns exactly as long as its booking exists."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._inventory = Inventory(domain)
        self._table = self._inventory.table
        self._bookings = Bookings()
        self.services = Services(self._inventory)
        self.shares = Shares(self._inventory)
        self._memberships = Memberships(self._inventory)
        #: Bookable rare values as the database shows them; those in the table are less what is booked.
        self._reported: dict[Key, Mapping[str, object]] = {}
        #: Instances that the feed has shown on no host, oldest first, and whether they are over. A late cast must not
        #: bring them back, and a late request must not book for an instance that is over.
        self._gone: dict[str, bool] = {}
        self.generation = 0

    def candidates(self, now: float) -> Candidates:
        return Candidates(self._inventory, now)

    def copied_candidates(self, now: float) -> Candidates:
        """Return :meth:`candidates` that later changes do not reach."""
        return Candidates(self._inventory.copy(), now)

    def counts(self) -> dict[str, int]:
        counts = len(self._table), len(self._inventory.instances), len(self._bookings)
        return dict(zip(self._domain.words.counted, counts, strict=True))

    # -- bookings ---------------------------------------------------------------------------------------------------

    def book(self, decision: Decision, expires_at: float) -> list[Booking]:
        """Book the picks of a decision, and return the bookings."""
        booked = []
        for pick in decision.picks:
            self.release(pick.instance_uuid)
            if self._gone.get(pick.instance_uuid):
                continue  # the feed will not show it again
            came_from = self._inventory.instances.host_of(pick.instance_uuid)
            entry = self._domain.requests.placed(pick.instance_uuid, *pick.key, decision.request)
            booked.append(Booking(pick.instance_uuid, pick.key, decision.consumption, expires_at, entry, came_from))
            self._book(booked[-1])
        return booked

    def bookings(self) -> list[Booking]:
        return list(self._bookings)

    def booking_of(self, instance_uuid: str) -> Booking | None:
        return self._bookings.get(instance_uuid)

    def book_again(self, booking: Booking) -> None:
        """Count a booking that was taken off for a while."""
        self.release(booking.instance_uuid)
        self._book(booking)

    def hint_bookings(self, told: Iterable[Booking]) -> None:
        """Count bookings of other schedulers, except those that are known, or whose result the feed has shown."""
        for booking in told:
            uuid = booking.instance_uuid
            known = self._bookings.get(uuid)
            if (known is not None and not known.told) or self._gone.get(uuid):
                continue
            self.release(uuid)
            if self._inventory.instances.host_of(uuid) == booking.came_from:
                self._book(booking)

    def _book(self, booking: Booking) -> None:
        self._bookings.book(booking)
        self._increase(booking.key, booking.amounts, 1)
        self._show_rare(booking.key, booking.amounts.rare)
        if booking.came_from is None:
            self._inventory.place(booking.entry)
        else:
            self._inventory.arriving[booking.instance_uuid] = booking.key[0]

    def release(self, instance_uuid: str) -> None:
        booking = self._bookings.release(instance_uuid)
        if booking is None:
            return
        self._increase(booking.key, booking.amounts, -1)
        self._show_rare(booking.key, booking.amounts.rare)
        self._inventory.arriving.pop(instance_uuid, None)
        if booking.came_from is None:
            self._inventory.remove(instance_uuid)

    def expire(self, now: float) -> None:
        for uuid in self._bookings.overdue(now):
            booking = self._bookings.get(uuid)
            level = logging.DEBUG if booking is not None and booking.told else logging.WARNING
            said = "The booking of %s %s has expired: the database never showed the %s"
            LOG.log(level, said, self._domain.words.thing, uuid, self._domain.words.thing)
            self.release(uuid)

    def _increase(self, key: Key, amounts: Consumption, sign: int) -> None:
        row = self._table.row_of(key)
        if row is not None:
            self._table.increase(row, {name: sign * amount for name, amount in amounts.numbers.items()})

    def _report_rare(self, key: Key, bookable: Mapping[str, object]) -> None:
        names = {*bookable, *self._reported.get(key, ())}
        self._reported[key] = bookable
        self._show_rare(key, names)
        if not bookable:
            del self._reported[key]

    @contextlib.contextmanager
    def without(self, holding: Holding | None) -> Iterator[None]:
        """Within this context, what one instance holds, or has booked, is free, and it is on no host."""
        if holding is None:
            yield
            return
        with contextlib.ExitStack() as taken_back:
            booking = self._bookings.get(holding.instance_uuid)
            placed = self._inventory.instances.get(holding.instance_uuid)
            if booking is not None:
                self._lift(taken_back, booking.key, booking.amounts.numbers)
                self._show_rare(booking.key, booking.amounts.rare, but=booking.instance_uuid)
                taken_back.callback(self._show_rare, booking.key, booking.amounts.rare)
            # The sender may be ahead of the feed: then the instance is not counted on that host here.
            if holding.claimed is not None and placed is not None and booking is None and placed.host == holding.host:
                self._lift_held(
                    taken_back, (placed.host, str(holding.node)), self._domain.requests.held(holding.claimed)
                )
            if placed is not None:
                self._inventory.remove(holding.instance_uuid)
                taken_back.callback(self._inventory.place, placed)
            yield

    @contextlib.contextmanager
    def losing(self, hosts: Iterable[str]) -> Iterator[None]:
        """Within this context these hosts take nothing, and their instances are on no host."""
        with contextlib.ExitStack() as taken_back:
            for host in hosts:
                for instance in list(self._inventory.instances.on_host(host).values()):
                    self._inventory.remove(instance.uuid)
                    taken_back.callback(self._inventory.place, instance)
                for row in self._table.rows_of_host(host):
                    taken_back.callback(self._table.write, row, {"disabled": self._table.column("disabled")[row]})
                    self._table.write(row, {"disabled": True})
            yield

    def _lift(self, taken_back: contextlib.ExitStack, key: Key, amounts: Mapping[str, float]) -> None:
        row = self._table.row_of(key)
        if row is not None:
            self._table.increase(row, {name: -amount for name, amount in amounts.items()})
            taken_back.callback(self._table.increase, row, amounts)

    def _lift_held(self, taken_back: contextlib.ExitStack, key: Key, held: Held) -> None:
        self._lift(taken_back, key, held.numbers)
        row = self._table.row_of(key)
        if row is None:
            return
        for name, give_back in held.give_back.items():
            known = self._table.rare.get(name, {}).get(row)
            if known is not None:
                self._table.write_rare(row, name, give_back(known))
                taken_back.callback(self._table.write_rare, row, name, known)

    def _show_rare(self, key: Key, names: Iterable[str], but: str | None = None) -> None:
        """Write the rare values of a node as reported, less what is booked, taken in the order of booking."""
        row = self._table.row_of(key)
        if row is None:
            return
        for name in names:
            value = self._reported.get(key, _NOTHING).get(name)
            for taking in self._bookings.takings(key, name, but) if value is not None else ():
                value = taking.taken_from(value)
            self._table.write_rare(row, name, value)

    # -- hints of casts ---------------------------------------------------------------------------------------------

    def hint_aggregates(self, aggregates: Iterable[AggregateHint], feed_is_newer: bool = False) -> None:
        """Replace these aggregates, except those that the feed has shown in this or a newer form.

        :param feed_is_newer: the feed was read after the hint came. It wins for all aggregates that it has shown, if the
            hint does not say how new it is
        """
        self._memberships.hint(aggregates, self.generation, feed_is_newer)

    def hint_instances(self, placed: Iterable[Any] = (), gone: Mapping[str, str] = _NO_HINT) -> None:
        """Apply hints about instances that are on a host, and (uuid → host) that have left it.

        A cast may be late: it adds what the feed has not shown yet, and takes back nothing that the feed has shown.
        Booked instances are left to the feed.
        """
        for instance in placed:
            known = self._inventory.instances.get(instance.uuid)
            elsewhere = known is not None and known.host != instance.host
            if self._bookings.get(instance.uuid) is None and not elsewhere and instance.uuid not in self._gone:
                self._inventory.place(instance if known is None else known.completed_by(instance))
        for uuid, host in gone.items():
            if self._bookings.get(uuid) is None and self._inventory.instances.host_of(uuid) == host:
                self._inventory.remove(uuid)

    def shown_on(self, instance_uuid: str) -> str | None:
        """Return the host on which the feed has shown an instance; None if it is only booked, or unknown."""
        booking = self._bookings.get(instance_uuid)
        if booking is not None and booking.came_from is None:
            return None
        return self._inventory.instances.host_of(instance_uuid)

    def confirmed_on(self, host: str) -> set[str]:
        """Return the uuids of the instances on a host, without those that are only booked there."""
        return {uuid for uuid in self._inventory.instances.on_host(host) if self._bookings.get(uuid) is None}

    # -- changes ----------------------------------------------------------------------------------------------------

    def apply(self, changes: Shown, news: bool = True) -> None:
        """Apply ``changes``.

        :param news: False if some of the changes may be older than the newest booking
        """
        if changes.full:
            self._drop_missing(changes)
            self._table.compact()
        self._memberships.apply(changes.aggregates)
        for service in changes.services:
            self.services.apply(service, compared=changes.full and not news)
        for instance in changes.instances:
            self._apply_instance(instance, news and not changes.full)
        for node in changes.nodes:
            self._apply_node(node)
        self._put_in_order()
        self.services.apply_heartbeats(changes.heartbeats)
        if changes.mix is not None:
            self.learn_demand(changes.mix)
        self.generation = changes.generation

    def apply_host(self, host: str, there: Shown) -> None:
        """Apply everything that the database has about one host. Apply newer changes after it."""
        nodes = {node.hypervisor_hostname for node in there.nodes}
        for key in [self._table.keys[row] for row in self._table.rows_of_host(host)]:
            if key is not None and key[1] not in nodes:
                self._remove_node(key)
        for uuid in self.confirmed_on(host).difference(instance.uuid for instance in there.instances):
            self._inventory.remove(uuid)
        for service in there.services:
            self.services.apply(service)
        for instance in there.instances:
            self._apply_instance(instance, news=False)
        for node in there.nodes:
            self._apply_node(node)
        self._put_in_order()

    def _put_in_order(self) -> None:
        """Sort the rows by their keys before a decision, and update the row numbers that services keep."""
        if not self._table.is_sorted:
            self.services.follow_rows(self._table.sort())

    @property
    def mix_version(self) -> int | None:
        """The version of the flavor mix; None if there is none."""
        demand = self._inventory.demand
        return None if demand is None else demand.version

    def learn_demand(self, mix: FlavorMix) -> None:
        """Take over a newer flavor mix."""
        known = self._inventory.demand
        if known is None or known.version < mix.version:
            self._inventory.learn_demand(mix)

    def _drop_missing(self, changes: Shown) -> None:
        nodes = {(node.host, node.hypervisor_hostname) for node in changes.nodes}
        for key in [key for key in self._table.keys if key is not None and key not in nodes]:
            self._remove_node(key)
        self.services.drop_missing({service.host for service in changes.services})
        instances = {instance.uuid for instance in changes.instances if instance.host is not None}
        for uuid in [uuid for uuid in self._inventory.instances.uuids() if uuid not in instances]:
            if self._bookings.get(uuid) is None:
                self._inventory.remove(uuid)
        self._memberships.drop_missing({aggregate.id for aggregate in changes.aggregates})

    # -- nodes ------------------------------------------------------------------------------------------------------

    def _apply_node(self, node: ShownPlace) -> None:
        key = (node.host, node.hypervisor_hostname)
        if node.deleted:
            self._remove_node(key)
            return
        new = key not in self._table
        row = self._table.add(key)
        found = self._domain.rows.read_row(node)
        values = found.numbers
        for uuid in self._domain.rows.counted_in(node):
            self._bookings.settle(uuid, key, self._domain.rows.counted_columns)
        for name, amount in self._bookings.totals(key).items():
            values[name] += amount
        if new:
            values.update(self.services.of_new_node(key[0]))
        self._table.write(row, values)
        for name, value in found.objects.items():
            self._table.write_object(row, name, value)
        for name, value in found.shared.items():
            self._table.share(row, name, value)
        for name, value in found.rare.items():
            self._table.write_rare(row, name, value)
        if found.bookable or key in self._reported:  # few nodes have, or had, such values
            self._report_rare(key, found.bookable)
        if new:
            self._memberships.show(row, key[0])
            self.shares.show(row, key)

    def _remove_node(self, key: Key) -> None:
        if key in self._table:
            LOG.info("Dropping dead %s %s:%s", self._domain.words.node, *key)
            self._table.remove(key)
            self._reported.pop(key, None)

    # -- instances --------------------------------------------------------------------------------------------------

    def _apply_instance(self, instance: ShownThing, news: bool) -> None:
        over = self._domain.rows.is_over(instance)
        if over or self._confirms(instance, news):
            self.release(instance.uuid)
        elif instance.host is None:
            return  # still booked: the index goes on showing it where it is booked
        elif instance.host == self._booked_on(instance.uuid):
            self._bookings.show(instance.uuid)
        if instance.host is None or self._domain.rows.is_gone(instance):
            self._inventory.remove(instance.uuid)
            self._gone[instance.uuid] = over
            if len(self._gone) > _GONE_REMEMBERED:
                del self._gone[next(iter(self._gone))]
            return
        self._gone.pop(instance.uuid, None)
        self._inventory.place(self._domain.rows.read_placed(instance))

    def _booked_on(self, instance_uuid: str) -> str | None:
        booking = self._bookings.get(instance_uuid)
        return None if booking is None else booking.key[0]

    def _confirms(self, instance: ShownThing, news: bool) -> bool:
        """Return True if the row is newer than the booking, or there is no booking.

        A row without a host means that the build was given back, but only if it is news: else it may be older than the
        pick. A row on the host that the instance moves from means so too, when its destination has claimed it or the move
        is over.
        """
        booking = self._bookings.get(instance.uuid)
        if booking is None:
            return True
        if instance.host is None:
            return news and self._domain.rows.is_given_back(instance)
        if instance.host == booking.key[0]:
            return self._domain.rows.is_counted(instance)
        if instance.host != booking.came_from:
            return True
        return news and self._domain.rows.has_moved(instance)
