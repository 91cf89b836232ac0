# SPDX-License-Identifier: Apache-2.0
"""The cache of host states, and the one lock of the process.

:mod:`scheduler.compute.drivers.host_manager` and :mod:`scheduler.volumes.drivers.host_manager` inherit from it. The
lock guards the cache: inventory and bookings. Changes are applied under it, and each decision is made and booked
under it, so that no two requests get the same room. It is held for one decision; no RPC and no SQL happens under it.
A decision has seen every change that was committed before its request asked for a refresh.

::

    feed ── read, one at a time, no lock ──▶ changes ── lock ──▶ cache ── lock ──▶ decision, booked

One thread at a time reads the feed (the turnstile). A request that arrives during another request's read waits for it, and
shares the next read with all requests that arrived meanwhile. A failed read is shared too: requests are then decided by the
states in the cache, if these are younger than ``scheduler_max_state_age``, and the answers are marked STALE.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from oslo_log import log as logging

from fleet import errors, failpoints
from fleet.clock import Clock, epoch_s, utcnow
from fleet.db.feed.feed import Shown
from fleet.objects import Holding
from fleet.rpc import deferred
from fleet.telemetry import metrics, process_memory, rate_limited_log
from scheduler.engine.decision import Decision, StateAge
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.domain import Domain
from scheduler.state.booking import Booking
from scheduler.state.host_cache import HostCache
from scheduler.state.shares import Schedulers

LOG = logging.getLogger(__name__)
Answer = TypeVar("Answer")

COMPARE_HOST_S = 30.0
#: Seconds for which a booking of another scheduler counts at most. It is shorter than for an own booking: a cast may come
#: after the build was given back, and then only time ends it.
TOLD_BOOKING_S = 30.0


class Decide(Protocol):
    """Decides over the hosts. :class:`StateAge` has the age of their states."""

    def __call__(self, hosts: Candidates, /, *, state: StateAge) -> Decision: ...


class Feed(Protocol):
    """The source of changes: :mod:`fleet.db.feed.feed`."""

    def read(self, since: int) -> Shown: ...

    def read_host(self, host: str) -> Shown: ...


class HostManager:
    """A subclass sets ``domain``.

    :param audit_feed: a second feed, for the full comparison, so that requests do not wait for it
    """

    domain: Domain
    #: Seconds by which bookings end, hosts are compared again, and states grow old. By default those of the clock; a service
    #: sets a clock that is never stepped.
    elapsed_s: Callable[[], float]
    #: Sends new bookings to the other schedulers; None if there is no way to them.
    tell_booked: Callable[[Sequence[Booking]], object] | None = None

    def __init__(
        self,
        feed: Feed,
        audit_feed: Feed,
        clock: Clock = utcnow,
        booking_timeout_s: float = 300,
        service_down_time_s: float = 60,
        max_state_age_s: float = 60,
    ) -> None:
        self._feed = feed
        self._audit_feed = audit_feed
        self._audit_lock = threading.Lock()
        #: Host → when it was last compared by itself.
        self._compared_at: dict[str, float] = {}
        self._clock = clock
        self.elapsed_s = lambda: epoch_s(clock())
        self._booking_timeout_s = booking_timeout_s
        self._service_down_time_s = service_down_time_s
        self._lock = threading.Lock()
        self._cache = HostCache(self.domain)
        self._turnstile = threading.Lock()
        self._reads_begun = 0
        self._newest_applied = 0
        self._newest_ended = 0
        self._max_state_age_s = max_state_age_s
        #: When the newest reading began, by the clock of heartbeats, and in seconds of ``elapsed_s``.
        self._read_at = self._begun_at = 0.0
        #: Until time goes on to then, and as long as there are no more signs of life, who was up is up.
        self._steady_until = self._followed_at = 0.0
        self._signs_of_life = 0
        self._problem = ""
        self._stale_log = rate_limited_log.RateLimit()

    @property
    def loaded(self) -> bool:
        """True if the cache has been filled once."""
        return self._newest_applied > 0

    def refresh(self) -> None:
        """Bring the cache to the commits of the time of this call, or later ones.

        :raises errors.StaleState: the feed cannot be read, and what is known is too old
        """
        arrived = self._reads_begun
        with self._turnstile:
            if self._newest_ended <= arrived:  # no read has begun and ended since we came
                self._reads_begun += 1
                self._read(self._reads_begun)
            self._require_known()

    def _require_known(self) -> None:
        """:raises errors.StaleState:"""
        if self._problem:
            self._require_young()

    @property
    def readings(self) -> int:
        """The number of readings of the feed that were applied; it grows when a newer reading is applied."""
        return self._newest_applied

    @property
    def stale(self) -> bool:
        """True if the newest reading has failed."""
        return bool(self._problem)

    def compare(self) -> None:
        """Read everything, and repair the differences. For the background: it takes as long as the fleet is large."""
        with self._audit_lock:
            with self._lock:
                self._cache.services.begin_comparison()
            everything = self._audit_feed.read(0)
        with self._turnstile:
            later = self._read_later(everything.generation)
            with self._lock:
                self._cache.apply(everything, news=False)
                self._apply_later(later)
                self._follow_liveness()
                counts = self._cache.counts()
        del everything, later
        process_memory.trim()
        for kind, count in counts.items():
            metrics.CACHE_SIZE.labels(kind).set(count)
        LOG.debug("Compared with the whole database at generation %s: %s", self._cache.generation, counts)

    def compare_host(self, host: str) -> None:
        """Compare one host, at most once in :data:`COMPARE_HOST_S` (30 s): a wrong sender may ask often."""
        now = self.elapsed_s()
        with self._audit_lock:
            if now - self._compared_at.get(host, float("-inf")) < COMPARE_HOST_S:
                return
            self._compared_at[host] = now
            there = self._audit_feed.read_host(host)
        with self._turnstile:
            later = self._read_later(there.generation)
            with self._lock:
                self._cache.apply_host(host, there)
                self._apply_later(later)
        LOG.info("Compared host %s with the database: %d instances", host, len(there.instances))

    def _read_later(self, generation: int) -> tuple[Shown, Shown | None]:
        """Read the changes to apply after a comparison that was read at ``generation``. Call it in the turnstile.

        First what came after the comparison: the cache must not go back. Then what is news to the cache, of all hosts: the
        comparison does not show an instance that was deleted meanwhile, nor a build that was given back.
        """
        newer = self._feed.read(generation)
        known = self._cache.generation
        return newer, self._feed.read(known) if known else None

    def _apply_later(self, later: tuple[Shown, Shown | None]) -> None:
        newer, news = later
        self._cache.apply(newer, news=False)
        if news is not None:
            self._cache.apply(news)

    def decide(self, decide: Decide, instance_uuids: tuple[str, ...]) -> Decision:
        """Make a decision and book it, if it is complete; a former pick of the same instances is void."""
        now = self.elapsed_s()
        with self._lock:
            self._cache.expire(now)
            for uuid in instance_uuids:
                self._cache.release(uuid)
            decision = decide(self._candidates(), state=self._state(now))
            booked = self._cache.book(decision, now + self._booking_timeout_s) if decision.complete else []
        if booked and self.tell_booked is not None and not self._cache.shares.schedulers.alone:
            deferred.after_reply(functools.partial(self.tell_booked, booked))
        return decision

    def follow_schedulers(self, schedulers: Schedulers) -> None:
        """Divide the hosts among the schedulers that are alive now."""
        with self._lock:
            self._cache.shares.follow(schedulers)

    def book(self, decision: Decision) -> None:
        """Count the picks of a decision that was made on a copy, until the database shows them."""
        with self._lock:
            self._cache.book(decision, self.elapsed_s() + self._booking_timeout_s)

    def shown(self, instance_uuids: Iterable[str]) -> dict[str, str]:
        """Return the host of each instance that the database shows on one. A booking is no host."""
        with self._lock:
            found = {uuid: self._cache.shown_on(uuid) for uuid in instance_uuids}
        return {uuid: host for uuid, host in found.items() if host is not None}

    def release(self, instance_uuids: Iterable[str]) -> None:
        """Drop the bookings of these instances: they are asked for again."""
        with self._lock:
            for uuid in instance_uuids:
                self._cache.release(uuid)

    def consider(self, work: Callable[[Candidates, StateAge], Answer], as_if_gone: Holding | None = None) -> Answer:
        """Let ``work`` read the hosts. Nothing is booked or changed.

        :param as_if_gone: an instance to look past: what it holds, or has booked, counts as free
        """
        now = self.elapsed_s()
        with self._lock:
            self._cache.expire(now)
            with self._cache.without(as_if_gone):
                return work(self._candidates(), self._state(now))

    def copy(self) -> Candidates:
        """Return a copy of the hosts, which a driver reads without the lock. :raises errors.StaleState:"""
        self.refresh()
        with self._lock:
            self._cache.expire(self.elapsed_s())
            return self._cache.copied_candidates(self._read_at)

    def bookings(self) -> Sequence[Booking]:
        """Return what is booked and not shown by the database yet. :raises errors.StaleState:"""
        self.refresh()
        with self._lock:
            self._cache.expire(self.elapsed_s())
            return self._cache.bookings()

    def hint_bookings(self, told: Callable[[float], Iterable[Booking]]) -> Sequence[Booking]:
        """Count bookings that another scheduler has sent, and return them.

        :param told: takes the time at which bookings expire, and returns the bookings
        """
        expires_at = self.elapsed_s() + min(self._booking_timeout_s, TOLD_BOOKING_S)
        bookings = list(told(expires_at))
        with self._lock:
            self._cache.hint_bookings(bookings)
        return bookings

    def hint(self, change: Callable[[HostCache], Answer]) -> Answer:
        """Apply the contents of a cast to the cache."""
        with self._lock:
            return change(self._cache)

    def _follow_liveness(self) -> None:
        """Judge again which hosts are up. A host goes down by time alone, without a change of its row."""
        now, signs = self._read_at, self._cache.services.signs_of_life
        if signs == self._signs_of_life and self._followed_at <= now < self._steady_until:
            return
        hosts = self._candidates()
        self._cache.services.follow_liveness(self.domain.rows.is_up(hosts, self._service_down_time_s))
        self._signs_of_life, self._followed_at = signs, now
        self._steady_until = self.domain.rows.steady_until(hosts, self._service_down_time_s)

    def _candidates(self) -> Candidates:
        """The hosts as they were when last read: who was alive then is not down for our not having looked since."""
        return self._cache.candidates(self._read_at)

    def _state(self, now: float) -> StateAge:
        """:param now: in seconds of ``elapsed_s``"""
        return StateAge(self._cache.generation, max(now - self._begun_at, 0.0), self.stale, self._cache.mix_version)

    def hosts_up(self, disabled: bool = False) -> tuple[list[str], StateAge]:
        """Names of hosts whose service is alive and enabled, sorted; and how old that is.

        :param disabled: return those that are disabled, too
        """
        now = self.elapsed_s()
        with self._lock:
            hosts = self._candidates()
            up = self.domain.rows.is_up(hosts, self._service_down_time_s) & hosts.present()
            if not disabled:
                up &= ~hosts.column("disabled")
            return sorted({hosts.key(row)[0] for row in hosts.rows[up].tolist()}), self._state(now)

    def node_names(self) -> list[str]:
        """Names of all nodes whose service is known, sorted."""
        with self._lock:
            hosts = self._candidates()
            return sorted({hosts.key(row)[1] for row in hosts.rows[hosts.present()].tolist()})

    def counts(self) -> dict[str, int]:
        """Return the number of nodes, instances and bookings."""
        with self._lock:
            return self._cache.counts()

    def _read(self, number: int) -> None:
        begun_at, elapsed_s = epoch_s(self._clock()), self.elapsed_s()
        try:
            failpoints.hit("scheduler.refresh.before")
            changes = self._feed.read(self._cache.generation)
        except Exception as failure:
            # Whatever the database or its driver raises: what is known may still do.
            metrics.CACHE_READ_FAILURES.inc()
            self._newest_ended = number
            self._problem = f"{type(failure).__name__}: {str(failure).strip().splitlines()[0] if str(failure) else ''}"
            return
        with self._lock:
            lag = changes.generation - self._cache.generation
            self._cache.apply(changes)
            # The reading may have shown that the clock has gone back. The heartbeats that were read have the new time.
            self._read_at, self._begun_at = min(begun_at, epoch_s(self._clock())), elapsed_s
            self._follow_liveness()
        self._newest_applied = self._newest_ended = number
        newest, full = changes.generation, changes.full
        del changes
        if full:  # of a large fleet, as large as what was made of it
            process_memory.trim()
        deferred.after_reply(functools.partial(_count, newest, lag, begun_at))
        if self._problem:
            LOG.info("The state of the hosts can be read again")
        self._problem = ""

    def _age_s(self) -> float:
        """Return the age of the host states."""
        return self.elapsed_s() - self._begun_at

    def _require_young(self) -> None:
        """:raises errors.StaleState: nothing is known, or it is too old to decide by"""
        age_s = self._age_s()
        if not self.loaded:
            raise errors.StaleState(problem=self._problem, age="nothing yet")
        if age_s > self._max_state_age_s:
            raise errors.StaleState(problem=self._problem, age=f"{age_s:.0f} s old")
        if (left_out := self._stale_log.due()) is not None:
            LOG.warning(
                "STALE: deciding by host states that are %.0f s old, as the newest cannot be read: %s "
                "(%d more such lines were left out)",
                age_s, self._problem, left_out,
            )  # fmt: skip


def _count(generation: int, lag: int, read_at: float) -> None:
    metrics.CACHE_GENERATION.set(generation)
    metrics.CACHE_LAG.set(lag)
    metrics.CACHE_READ_AT.set(read_at)
