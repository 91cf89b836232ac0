# SPDX-License-Identifier: Apache-2.0
"""All that is known of the hosts of one domain. The cache fills it, and decisions read it."""

from __future__ import annotations

from typing import Any

from fleet.objects import Aggregate
from scheduler.engine.hosts.domain import Domain, Placed
from scheduler.engine.hosts.instance_index import InstanceIndex
from scheduler.engine.hosts.remembered import Remembered
from scheduler.engine.hosts.table import HostTable


class Inventory:
    """The table of hosts, the instances on them, their aggregates, and why services are disabled.

    Change the instances with :meth:`place` and :meth:`remove` only: a change of a host's instances is a change of its row.
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        layout = domain.layout
        self.table = HostTable(layout.columns, layout.shared, layout.objects, layout.often_uniform)
        self.instances = InstanceIndex()
        #: By uuid, the host that an instance is booked for which is on another one.
        self.arriving: dict[str, str] = {}
        self.remembered = Remembered()
        self.aggregates: dict[int, Aggregate] = {}
        self.disabled_reasons: dict[str, str] = {}
        #: True if the hosts are divided among several schedulers: then the column ``own`` marks this one's share.
        self.divided = False
        #: What the fleet is asked for, as the domain knows it (:mod:`fleet.objects.flavor_mix`); None if it is not known.
        self.demand: Any = None
        #: Grows when something has changed that no row of the table shows, such as an aggregate's metadata.
        self.epoch = 0
        self._metadata_keys: frozenset[str] | None = None

    def copy(self) -> Inventory:
        """Return an inventory of its own, which later changes of this one do not reach."""
        other = Inventory(self.domain)
        other.table, other.instances = self.table.copy(), self.instances.copy()
        other.arriving = dict(self.arriving)
        other.aggregates, other.disabled_reasons = dict(self.aggregates), dict(self.disabled_reasons)
        other.divided, other.demand, other.epoch = self.divided, self.demand, self.epoch
        return other

    def place(self, instance: Placed) -> None:
        """Put an instance on its host; it leaves the host that it was on."""
        former = self.instances.place(instance)
        if former == instance:
            return
        self._touch(instance.host)
        if former is not None and former.host != instance.host:
            self._touch(former.host)

    def remove(self, uuid: str) -> None:
        former = self.instances.remove(uuid)
        if former is not None:
            self._touch(former.host)

    def _touch(self, host: str) -> None:
        for row in self.table.rows_of_host(host):
            self.table.touch_row(row)

    def aggregates_changed(self) -> None:
        """Call this when ``aggregates`` has changed: what was computed from them is void."""
        self.epoch += 1
        self._metadata_keys = None

    def learn_demand(self, demand: object) -> None:
        """Replace ``demand``, and drop the values that were computed from it."""
        self.demand = demand
        self.epoch += 1

    def metadata_keys(self) -> frozenset[str]:
        """Return all keys of all aggregates' metadata."""
        if self._metadata_keys is None:
            self._metadata_keys = frozenset(key for each in self.aggregates.values() for key in each.metadata)
        return self._metadata_keys

    def aggregates_of(self, numbers: tuple[int, ...] | None) -> list[Aggregate]:
        """Return the aggregates with these ids, leaving out ids that are not known."""
        return [self.aggregates[number] for number in numbers or () if number in self.aggregates]
