# SPDX-License-Identifier: Apache-2.0
"""What the scheduler believes: the inventory as the feed tells it, less what is booked. Plain state, no lock."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from oslo_log import log as logging

from fleet import states
from fleet.hardware.node import Hardware
from fleet.objects import Claimed, Holding
from scheduler.compute import domain
from scheduler.engine.candidates import Candidates
from scheduler.engine.consumption import HARDWARE, Consumption
from scheduler.engine.decision import Decision
from scheduler.engine.host_table import Key
from scheduler.engine.instance_index import TrackedInstance, image_pairs
from scheduler.engine.inventory import Inventory
from scheduler.state.booking import Booking, Ledger
from scheduler.state.hints import AggregateHint
from scheduler.state.memberships import Memberships
from scheduler.state.service_records import ServiceRecords

LOG = logging.getLogger(__name__)

_GONE_REMEMBERED = 10_000
#: Of instances for which no host will be wanted any more.
_OVER = (states.ERROR, states.DELETED)
_NOTHING: Mapping[str, Any] = types.MappingProxyType({})
_NO_HINT: Mapping[str, str] = types.MappingProxyType({})


def _is_moving_on(instance: Any) -> bool:
    moving = instance.task_state in states.CLAIMED_MOVES
    return moving or (instance.vm_state == states.ACTIVE and instance.task_state is None)


class HostCache:
    """Applies changes and bookings. An amount is in the columns exactly as long as it is in the ledger."""

    def __init__(self) -> None:
        self._inventory = Inventory(domain.new_table())
        self._table = self._inventory.table
        self._ledger = Ledger()
        self.services = ServiceRecords(self._inventory)
        self._memberships = Memberships(self._inventory)
        #: Rare values that can be booked, as the database shows them; the table's are less what is.
        self._reported: dict[Key, Mapping[str, Any]] = {}
        #: Instances that the feed has told to be on no host, the oldest first, and whether for good: a late cast must
        #: not bring them back, nor a late request book for what is over.
        self._gone: dict[str, bool] = {}
        self.generation = 0

    def candidates(self, now: float) -> Candidates:
        return Candidates(self._inventory, now)

    def copied_candidates(self, now: float) -> Candidates:
        """Return :meth:`candidates` that later changes do not reach."""
        return Candidates(self._inventory.copy(), now)

    def counts(self) -> dict[str, int]:
        return {"nodes": len(self._table), "instances": len(self._inventory.instances), "bookings": len(self._ledger)}

    # -- bookings ---------------------------------------------------------------------------------------------------

    def book(self, decision: Decision, expires_at: float) -> None:
        for pick in decision.picks:
            self.release(pick.instance_uuid)
            if self._gone.get(pick.instance_uuid):
                continue  # nothing more will be heard of it
            came_from = self._inventory.instances.host_of(pick.instance_uuid)
            self._ledger.book(Booking(pick.instance_uuid, pick.key, decision.amounts, expires_at, came_from))
            self._increase(pick.key, decision.amounts, 1)
            self._show_rare(pick.key, decision.amounts.rare)
            if came_from is None:
                type_id = decision.instance_type_id
                self._inventory.instances.place(
                    TrackedInstance(pick.instance_uuid, *pick.key, instance_type_id=type_id)
                )

    def release(self, instance_uuid: str) -> None:
        booking = self._ledger.release(instance_uuid)
        if booking is None:
            return
        self._increase(booking.key, booking.amounts, -1)
        self._show_rare(booking.key, booking.amounts.rare)
        if booking.came_from is None:
            self._inventory.instances.remove(instance_uuid)

    def expire(self, now: float) -> None:
        for uuid in self._ledger.overdue(now):
            LOG.warning("Nothing was heard of instance %s since it was placed: its booking is dropped", uuid)
            self.release(uuid)

    def _increase(self, key: Key, amounts: Consumption, sign: int) -> None:
        row = self._table.row_of(key)
        if row is not None:
            self._table.increase(row, {name: sign * amount for name, amount in amounts.numbers.items()})

    def _report_rare(self, key: Key, hardware: Hardware | None) -> None:
        self._reported[key] = {} if hardware is None else {HARDWARE: hardware}
        self._show_rare(key, domain.BOOKED)
        if hardware is None:
            del self._reported[key]

    @contextlib.contextmanager
    def without(self, holding: Holding | None) -> Iterator[None]:
        """The hosts as if one instance were on none: what it holds, or has booked, is free for as long as this lasts."""
        if holding is None:
            yield
            return
        with contextlib.ExitStack() as taken_back:
            booking = self._ledger.get(holding.instance_uuid)
            placed = self._inventory.instances.get(holding.instance_uuid)
            if booking is not None:
                self._lift(taken_back, booking.key, booking.amounts.numbers)
                self._show_rare(booking.key, booking.amounts.rare, but=booking.instance_uuid)
                taken_back.callback(self._show_rare, booking.key, booking.amounts.rare)
            # What the sender knows of a host that the feed has not shown on it yet is not on it here, either.
            if holding.claimed is not None and placed is not None and booking is None and placed.host == holding.host:
                self._lift_held(taken_back, (placed.host, str(holding.node)), holding.claimed)
            if placed is not None:
                self._inventory.instances.remove(holding.instance_uuid)
                taken_back.callback(self._inventory.instances.place, placed)
            yield

    def _lift(self, taken_back: contextlib.ExitStack, key: Key, amounts: Mapping[str, float]) -> None:
        row = self._table.row_of(key)
        if row is not None:
            self._table.increase(row, {name: -amount for name, amount in amounts.items()})
            taken_back.callback(self._table.increase, row, amounts)

    def _lift_held(self, taken_back: contextlib.ExitStack, key: Key, claimed: Claimed) -> None:
        self._lift(taken_back, key, domain.held(claimed))
        row = self._table.row_of(key)
        hardware = None if row is None else self._table.rare.get(HARDWARE, {}).get(row)
        if row is not None and hardware is not None:
            self._table.write_rare(row, HARDWARE, domain.less_held(hardware, claimed))
            taken_back.callback(self._table.write_rare, row, HARDWARE, hardware)

    def _show_rare(self, key: Key, names: Iterable[str], but: str | None = None) -> None:
        """The rare values of a node as reported, less what is booked: taken anew, in the order of booking."""
        row = self._table.row_of(key)
        if row is None:
            return
        for name in names:
            value = self._reported.get(key, _NOTHING).get(name)
            for taking in self._ledger.takings(key, name, but) if value is not None else ():
                value = taking.taken_from(value)
            self._table.write_rare(row, name, value)

    # -- hints of casts ---------------------------------------------------------------------------------------------

    def hint_aggregates(self, aggregates: Iterable[AggregateHint], feed_is_newer: bool = False) -> None:
        """Replace these aggregates, but for what the feed has shown already, in this or a newer form.

        :param feed_is_newer: the feed was read after the hint came: it knows better of all aggregates that it has told of,
            where the hint does not say how new it is
        """
        self._memberships.hint(aggregates, self.generation, feed_is_newer)

    def hint_instances(self, placed: Iterable[TrackedInstance] = (), gone: Mapping[str, str] = _NO_HINT) -> None:
        """Instances that are on a host, and (uuid → host) that have left it. What is booked is left to the feed.

        A cast may be late: it adds what the feed has not told yet, and takes back nothing that it has.
        """
        for instance in placed:
            known = self._inventory.instances.get(instance.uuid)
            elsewhere = known is not None and known.host != instance.host
            if self._ledger.get(instance.uuid) is None and not elsewhere and instance.uuid not in self._gone:
                self._inventory.instances.place(instance if known is None else known.completed_by(instance))
        for uuid, host in gone.items():
            if self._ledger.get(uuid) is None and self._inventory.instances.host_of(uuid) == host:
                self._inventory.instances.remove(uuid)

    def confirmed_on(self, host: str) -> set[str]:
        """The instances on a host, without those that are only booked there."""
        return {uuid for uuid in self._inventory.instances.on_host(host) if self._ledger.get(uuid) is None}

    # -- changes ----------------------------------------------------------------------------------------------------

    def apply(self, changes: Any, news: bool = True) -> None:
        """Take over ``changes``, of :class:`fleet.db.feed.Changes`' form.

        :param news: False if some of it may have been known before the newest booking was made
        """
        if changes.full:
            self._drop_missing(changes)
            self._table.compact()
        self._memberships.apply(changes.aggregates)
        for service in changes.services:
            self.services.apply(service)
        for instance in changes.instances:
            self._apply_instance(instance, news and not changes.full)
        for node in changes.nodes:
            self._apply_node(node)
        self.services.apply_heartbeats(changes.heartbeats)
        self.generation = changes.generation

    def apply_host(self, host: str, there: Any) -> None:
        """Take over all that there is of one host; what may be newer is to be applied after it."""
        nodes = {node.hypervisor_hostname for node in there.nodes}
        for key in [self._table.keys[row] for row in self._table.rows_of_host(host)]:
            if key is not None and key[1] not in nodes:
                self._remove_node(key)
        for uuid in self.confirmed_on(host).difference(instance.uuid for instance in there.instances):
            self._inventory.instances.remove(uuid)
        for service in there.services:
            self.services.apply(service)
        for instance in there.instances:
            self._apply_instance(instance, news=False)
        for node in there.nodes:
            self._apply_node(node)

    def _drop_missing(self, changes: Any) -> None:
        nodes = {(node.host, node.hypervisor_hostname) for node in changes.nodes}
        for key in [key for key in self._table.keys if key is not None and key not in nodes]:
            self._remove_node(key)
        self.services.drop_missing({service.host for service in changes.services})
        instances = {instance.uuid for instance in changes.instances if instance.host is not None}
        for uuid in [uuid for uuid in self._inventory.instances.uuids() if uuid not in instances]:
            if self._ledger.get(uuid) is None:
                self._inventory.instances.remove(uuid)
        self._memberships.drop_missing({aggregate.id for aggregate in changes.aggregates})

    # -- nodes ------------------------------------------------------------------------------------------------------

    def _apply_node(self, node: Any) -> None:
        key = (node.host, node.hypervisor_hostname)
        if node.deleted:
            self._remove_node(key)
            return
        new = key not in self._table
        row = self._table.add(key)
        hardware = domain.hardware(node)
        values = domain.numbers(node, hardware)
        for name, amount in self._ledger.totals(key).items():
            values[name] += amount
        if new:
            values.update(self.services.of_new_node(key[0]))
        self._table.write(row, values)
        self._table.write_object(row, "host_ip", node.host_ip)
        self._table.share(row, "capabilities", domain.capabilities(node))
        for name, value in domain.unbooked(node).items():
            self._table.write_rare(row, name, value)
        if hardware is not None or key in self._reported:  # few nodes have, or had, anything of the kind
            self._report_rare(key, hardware)
        if new:
            self._memberships.show(row, key[0])

    def _remove_node(self, key: Key) -> None:
        if key in self._table:
            LOG.info("Dropping dead compute node %s:%s", *key)
            self._table.remove(key)
            self._reported.pop(key, None)

    # -- instances --------------------------------------------------------------------------------------------------

    def _apply_instance(self, instance: Any, news: bool) -> None:
        over = instance.deleted or instance.vm_state in _OVER
        if over or self._confirms(instance, news):
            self.release(instance.uuid)
        elif instance.host is None:
            return  # booked still: the index must go on showing it where it is booked
        if instance.deleted or instance.vm_state == states.DELETED or instance.host is None:
            self._inventory.instances.remove(instance.uuid)
            self._gone[instance.uuid] = over
            if len(self._gone) > _GONE_REMEMBERED:
                del self._gone[next(iter(self._gone))]
            return
        self._gone.pop(instance.uuid, None)
        self._inventory.instances.place(
            TrackedInstance(
                instance.uuid,
                instance.host,
                instance.node,
                instance.vm_state,
                instance.task_state,
                instance.instance_type_id,
                instance.project_id,
                image_pairs(getattr(instance, "image_properties", None)),
            )
        )

    def _confirms(self, instance: Any, news: bool) -> bool:
        """Whether the row knows better than the booking, if there is one.

        A row without a host says that the build was given back, if it is news; else it may be older than the pick.
        One on the host that it is to be moved from says so, too, when its destination has claimed or the move is over.
        """
        booking = self._ledger.get(instance.uuid)
        if booking is None:
            return True
        if instance.host is None:
            return news
        if instance.host == booking.key[0] or instance.host != booking.came_from:
            return True
        return news and _is_moving_on(instance)
