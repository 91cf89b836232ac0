# SPDX-License-Identifier: Apache-2.0
"""The services of hosts as the feed shows them, written into the rows of their nodes.

Called by :mod:`scheduler.state.host_cache`. A node may be considered while the service of its host is known.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence

import numpy
from oslo_log import log as logging

from fleet.clock import epoch_s
from fleet.objects.feed_rows import ShownService
from scheduler.engine.hosts.inventory import Inventory
from scheduler.engine.hosts.table import PRESENT

LOG = logging.getLogger(__name__)
#: The columns of a service, which rows of nodes do not have.
OF_SERVICES = frozenset({"disabled", "forced_down", "last_seen_up"})


class Services:
    """Plain state without a lock."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._table = inventory.table
        #: host → disabled, forced_down, last_seen_up; also of hosts that have no node yet.
        self._services: dict[str, tuple[bool, bool, float]] = {}
        #: Hosts whose heartbeat was shown since the newest comparison began to read.
        self._heard: set[str] = set()
        self._up = numpy.empty(0, dtype=bool)
        #: Grows whenever a service, or the liveness of a host, may have changed.
        self.signs_of_life = 0

    def begin_comparison(self) -> None:
        """Note which heartbeats are shown from now on: they are newer than what the comparison reads."""
        self._heard.clear()

    def apply(self, service: ShownService, compared: bool = False) -> None:
        """Apply a row. Its heartbeat counts even if it is the earlier one: the clock that wrote it may have gone back.

        :param compared: the row is of a comparison, which may have read it before the newest heartbeat
        """
        if service.deleted:
            self._drop(service.host)
            return
        known, last_seen_up = self._services.get(service.host), epoch_s(service.last_seen_up)
        if compared and known is not None and service.host in self._heard:
            last_seen_up = known[2]
        self._services[service.host] = (bool(service.disabled), bool(service.forced_down), last_seen_up)
        reasons = self._inventory.disabled_reasons
        reasons.pop(service.host, None)
        if service.disabled_reason:
            reasons[service.host] = service.disabled_reason
        self._show(service.host)

    def apply_heartbeats(self, heartbeats: Sequence[tuple[str, datetime.datetime]]) -> None:
        """Apply (host, time of the newest heartbeat) pairs, in the order in which they were read."""
        self.signs_of_life += bool(heartbeats)
        for host, heard_at in heartbeats:
            known, last_seen_up = self._services.get(host), epoch_s(heard_at)
            self._heard.add(host)
            if known is not None and known[2] != last_seen_up:
                self._services[host] = (known[0], known[1], last_seen_up)
                for row in self._table.rows_of_host(host):
                    self._table.note(row, "last_seen_up", last_seen_up)

    def drop_missing(self, hosts: Collection[str]) -> None:
        """Drop the services of all other hosts."""
        self.signs_of_life += 1
        for host in [host for host in self._services if host not in hosts]:
            self._drop(host)

    def _drop(self, host: str) -> None:
        self._services.pop(host, None)
        self._inventory.disabled_reasons.pop(host, None)
        self._show(host)

    def _show(self, host: str) -> None:
        self.signs_of_life += 1
        rows = self._table.rows_of_host(host)
        values = self._values(host) if rows else {}
        for row in rows:
            self._table.write(row, values)

    def of_new_node(self, host: str) -> Mapping[str, float]:
        """Return the values of a new node's service columns."""
        self.signs_of_life += 1
        return self._values(host)

    def _values(self, host: str) -> Mapping[str, float]:
        service = self._services.get(host)
        if service is None:
            node = self._inventory.domain.words.node
            LOG.warning("Host %s has no service record of its agent: its %ss are left out", host, node)
            return {PRESENT: False}
        disabled, forced_down, last_seen_up = service
        return {"disabled": disabled, "forced_down": forced_down, "last_seen_up": last_seen_up, PRESENT: True}

    def follow_rows(self, former: numpy.ndarray) -> None:
        """Follow rows that have moved.

        :param former: the former number of each row
        """
        most = int(former.max(initial=-1)) + 1
        self._up = numpy.pad(self._up, (0, max(most - len(self._up), 0)))[former]

    def follow_liveness(self, up: numpy.ndarray) -> None:
        """Mark the rows of hosts that went down, or came up again, as changed.

        :param up: one boolean for every row of the table
        """
        if len(up) > len(self._up):
            self._up = numpy.pad(self._up, (0, len(up) - len(self._up)))
        if not numpy.array_equal(self._up, up):
            self._table.touch(numpy.flatnonzero(self._up != up))
        self._up = up
