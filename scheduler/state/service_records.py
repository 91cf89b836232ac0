# SPDX-License-Identifier: Apache-2.0
"""The compute services as the feed tells of them, shown on the nodes of their hosts, which count while theirs is known."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy
from oslo_log import log as logging

from scheduler.compute import domain
from scheduler.engine.host_table import PRESENT
from scheduler.engine.inventory import Inventory

LOG = logging.getLogger(__name__)


class ServiceRecords:
    """Plain state, no lock."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._table = inventory.table
        #: host → disabled, forced_down, last_seen_up; also of hosts that have no node yet.
        self._services: dict[str, tuple[bool, bool, float]] = {}
        self._up = numpy.empty(0, dtype=bool)
        #: Grows whenever a service, or a host's life, may be another than before.
        self.signs_of_life = 0

    def apply(self, service: Any) -> None:
        if service.deleted:
            self._drop(service.host)
            return
        known = self._services.get(service.host, (False, False, 0.0))
        last_seen_up = max(known[2], domain.epoch_s(service.last_seen_up))
        self._services[service.host] = (bool(service.disabled), bool(service.forced_down), last_seen_up)
        reasons = self._inventory.disabled_reasons
        reasons.pop(service.host, None)
        if service.disabled_reason:
            reasons[service.host] = service.disabled_reason
        self._show(service.host)

    def apply_heartbeats(self, heartbeats: Sequence[tuple[str, datetime.datetime]]) -> None:
        """By host, when it was last heard of."""
        self.signs_of_life += bool(heartbeats)
        for host, heard_at in heartbeats:
            known, last_seen_up = self._services.get(host), domain.epoch_s(heard_at)
            if known is not None and known[2] < last_seen_up:
                self._services[host] = (known[0], known[1], last_seen_up)
                for row in self._table.rows_of_host(host):
                    self._table.note(row, "last_seen_up", last_seen_up)

    def drop_missing(self, hosts: Collection[str]) -> None:
        """Of others than these hosts there is no service."""
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
        """Values for its columns."""
        self.signs_of_life += 1
        return self._values(host)

    def _values(self, host: str) -> Mapping[str, float]:
        service = self._services.get(host)
        if service is None:
            LOG.warning("Host %s has no compute service record: its nodes are left out", host)
            return {PRESENT: False}
        disabled, forced_down, last_seen_up = service
        return {"disabled": disabled, "forced_down": forced_down, "last_seen_up": last_seen_up, PRESENT: True}

    def follow_liveness(self, up: numpy.ndarray) -> None:
        """A host that has gone silent, or is heard of again, has changed.

        :param up: for every row of the table
        """
        if len(up) > len(self._up):
            self._up = numpy.pad(self._up, (0, len(up) - len(self._up)))
        if not numpy.array_equal(self._up, up):
            self._table.touch(numpy.flatnonzero(self._up != up))
        self._up = up
