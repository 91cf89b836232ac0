# SPDX-License-Identifier: Apache-2.0
"""The cache of host states and the one lock of the process.

The lock guards the cache: inventory and bookings. Under it changes are applied, and a decision is made and booked, so
that no two requests are given the same room. It is held for the time of one decision; no RPC and no SQL happens under
it. How stale a decision may be: it has seen every change that was committed before its request asked for a refresh.

::

    feed ── read, one at a time, no lock ──▶ changes ── lock ──▶ cache ── lock ──▶ decision, booked

The feed is read by one thread at a time (the turnstile): a request that arrives while another's read is under way waits
for it, and shares the next one with all who have come meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from oslo_log import log as logging

from fleet.clock import Clock, utcnow
from scheduler.candidates import Candidates
from scheduler.decision import Decision
from scheduler.domain import epoch_s
from scheduler.filters.compute import is_up
from scheduler.host_cache import HostCache

LOG = logging.getLogger(__name__)


class Feed(Protocol):
    """Where changes come from; see :mod:`fleet.db.feed`."""

    def read(self, since: int) -> Any: ...


class HostManager:
    """``audit_feed`` is a second feed for the full comparison, so that requests need not wait for it."""

    def __init__(
        self,
        feed: Feed,
        audit_feed: Feed,
        clock: Clock = utcnow,
        booking_timeout_s: float = 300,
        service_down_time_s: float = 60,
    ) -> None:
        self._feed = feed
        self._audit_feed = audit_feed
        self._clock = clock
        self._booking_timeout_s = booking_timeout_s
        self._service_down_time_s = service_down_time_s
        self._lock = threading.Lock()
        self._cache = HostCache()
        self._turnstile = threading.Lock()
        self._reads_begun = 0
        self._newest_applied = 0

    @property
    def loaded(self) -> bool:
        """Whether the cache has been filled once."""
        return self._newest_applied > 0

    def refresh(self) -> None:
        """Bring the cache to what was committed when this was called, or later."""
        arrived = self._reads_begun
        with self._turnstile:
            if self._newest_applied > arrived:
                return  # it was read after we came
            self._read()

    def compare(self) -> None:
        """Read everything and repair what differs. For the background: it takes as long as the fleet is large."""
        everything = self._audit_feed.read(0)
        with self._turnstile:
            # What was committed during the read is in it or after it; the cache must not go back.
            since = self._feed.read(everything.generation)
            with self._lock:
                self._cache.apply(everything, news=False)
                self._cache.apply(since, news=False)
                counts = self._cache.counts()
        LOG.debug("Compared with the whole database at generation %s: %s", since.generation, counts)

    def decide(self, decide: Callable[[Candidates], Decision], instance_uuids: tuple[str, ...]) -> Decision:
        """Make a decision and book it, if it is complete; a former pick of the same instances is void."""
        now = epoch_s(self._clock())
        with self._lock:
            self._cache.expire(now)
            for uuid in instance_uuids:
                self._cache.release(uuid)
            decision = decide(self._cache.candidates(now))
            if decision.complete:
                self._cache.book(decision, now + self._booking_timeout_s)
        return decision

    def hosts_up(self) -> list[str]:
        """Names of hosts whose service is enabled and alive, sorted."""
        with self._lock:
            hosts = self._cache.candidates(epoch_s(self._clock()))
            up = is_up(hosts, self._service_down_time_s) & ~hosts.column("disabled") & hosts.present()
            return sorted({hosts.key(row)[0] for row in hosts.rows[up].tolist()})

    def node_names(self) -> list[str]:
        """Names of all nodes whose service is known, sorted."""
        with self._lock:
            hosts = self._cache.candidates(epoch_s(self._clock()))
            return sorted({hosts.key(row)[1] for row in hosts.rows[hosts.present()].tolist()})

    def counts(self) -> dict[str, int]:
        """How many nodes, instances and bookings are known."""
        with self._lock:
            return self._cache.counts()

    def _read(self) -> None:
        self._reads_begun += 1
        number = self._reads_begun
        changes = self._feed.read(self._cache.generation)
        with self._lock:
            self._cache.apply(changes)
        self._newest_applied = number
