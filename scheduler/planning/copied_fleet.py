# SPDX-License-Identifier: Apache-2.0
"""A copy of the fleet in memory, on which the scheduler's own code decides. Nothing is sent, booked or written elsewhere.

Called by the planning modules of both domains. For the hosts of a copy of one state, time stands still at the newest
heartbeat: hosts that were alive then stay so. Every pick is taken as a success.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from fleet import errors
from fleet.clock import Clock, utcnow
from fleet.db.feed.feed import Changes, Shown
from scheduler.engine import decide, pipeline
from scheduler.engine.decision import Decision, StateAge
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.consumption import Consumption, built
from scheduler.engine.hosts.domain import Domain
from scheduler.engine.names import Request
from scheduler.engine.request_cache import RequestCache
from scheduler.planning.hypothetical import FixedFeed, newest_heartbeat
from scheduler.state.booking import Booking
from scheduler.state.host_cache import HostCache
from scheduler.state.host_manager import Feed, HostManager

Answer = TypeVar("Answer")


class CopiedFleet:
    def __init__(
        self,
        asked: pipeline.Pipeline,
        state: Shown | Feed,
        service_down_time_s: float,
        cached: type[HostManager],
        clock: Clock | None = None,
    ) -> None:
        """:param state: the whole state, as the change feed reports it; or a feed, which :meth:`follow` reads
        :param cached: the cache of the domain of ``asked``
        :param clock: None: time stands still at the newest heartbeat
        """
        now = (newest_heartbeat(state) if isinstance(state, Changes) else None) or utcnow()
        feed = FixedFeed(state) if isinstance(state, Changes) else state
        self._manager = cached(feed, feed, clock or (lambda: now), math.inf, service_down_time_s)
        self._manager.refresh()
        built = functools.partial(_built, asked.domain)
        self._pipeline = dataclasses.replace(
            asked,
            domain=dataclasses.replace(
                asked.domain, requests=dataclasses.replace(asked.domain.requests, consumption=built)
            ),
        )
        self._cache = RequestCache()
        self._chance = random.Random(1)
        #: Bookings of the scheduler that this copy counts, and those that a trial has replaced for a while.
        self._counted: dict[str, Booking] = {}
        self._lifted: dict[str, Booking] = {}

    def follow(self, booked: Iterable[Booking] = ()) -> bool:
        """Read the changes of the feed. Return False if the feed cannot be read.

        :param booked: all bookings of the scheduler, read before this call. Each counts until the feed shows its result, or
            a later call leaves it out
        """
        self._manager.refresh()
        if self._manager.stale:
            return False
        before, self._counted = self._counted, {each.instance_uuid: each for each in booked}
        new = [each for uuid, each in self._counted.items() if not _is_same(before.get(uuid), each)]
        gone = [uuid for uuid in before if uuid not in self._counted]
        if new or gone:
            self._manager.hint(lambda cache: _count(cache, new, gone))
        return True

    def decide(self, request: Request) -> Decision:
        """Decide, and book the picks if the decision is complete. :meth:`release` gives a former booking back."""
        if self._counted:
            self._manager.hint(lambda cache: self._lift(cache, request.instance_uuids))
        prepared = pipeline.prepare(self._pipeline, request)
        made = functools.partial(
            decide.decide, self._pipeline, prepared, chance=self._chance, log=False, cache=self._cache
        )
        return self._manager.decide(made, request.instance_uuids)

    def book(self, decision: Decision) -> None:
        """Book a decision that was made on another copy."""
        self._manager.book(decision)

    def release(self, instance_uuid: str) -> None:
        """Drop the booking of an instance that was decided here."""
        self._manager.release([instance_uuid])
        lifted = self._lifted.pop(instance_uuid, None)
        if lifted is not None:
            self._manager.hint(lambda cache: cache.book_again(lifted))

    def _lift(self, cache: HostCache, instance_uuids: Iterable[str]) -> None:
        for uuid in instance_uuids:
            booking = cache.booking_of(uuid) if uuid in self._counted else None
            if booking is not None:
                self._lifted.setdefault(uuid, booking)

    @contextlib.contextmanager
    def losing(self, hosts: Sequence[str]) -> Iterator[None]:
        """Within this context these hosts take nothing, and what was on them is nowhere. Release bookings before its end."""
        taken_back = contextlib.ExitStack()
        self._manager.hint(lambda cache: taken_back.enter_context(cache.losing(hosts)))
        try:
            yield
        finally:
            self._manager.hint(lambda _cache: taken_back.close())

    def read(self, work: Callable[[Candidates, StateAge], Answer]) -> Answer:
        return self._manager.consider(work)

    def change(self, work: Callable[[HostCache], object]) -> None:
        self._manager.hint(work)

    def hosts_up(self, disabled: bool = False) -> list[str]:
        """Return the names of hosts that are up and enabled. :param disabled: those that are disabled, too"""
        return self._manager.hosts_up(disabled)[0]


def _built(domain: Domain, request: Request) -> Consumption:
    """Return the amounts that an instance or a volume takes of its place once it is built. Here every build ends at once."""
    return built(domain.requests.consumption(request))


def _is_same(known: Booking | None, now: Booking) -> bool:
    return known is not None and (known.key, known.expires_at) == (now.key, now.expires_at)


def _count(cache: HostCache, new: Iterable[Booking], gone: Iterable[str]) -> None:
    for uuid in gone:
        cache.release(uuid)
    cache.hint_bookings(
        # The scheduler ends them by its own clock.
        dataclasses.replace(each, amounts=built(each.amounts), expires_at=math.inf, told=True)
        for each in new
    )


def without_filters(asked: pipeline.Pipeline, without: Sequence[str]) -> pipeline.Pipeline:
    """:raises errors.InvalidInput: a filter that is to go is not among those of the pipeline"""
    names = [type(each).__name__ for each in asked.filters]
    for name in without:
        if name not in names:
            raise errors.InvalidInput(
                field="without-filter", reason=f"is {name}, which is not among {', '.join(names)}"
            )
    left = [each for each in asked.filters if type(each).__name__ not in without]
    return dataclasses.replace(asked, filters=left)
