# SPDX-License-Identifier: Apache-2.0
"""One thread at a time reads the feed; no two requests are given the same room."""

from __future__ import annotations

import concurrent.futures
import datetime
import functools
import random
import threading

import pytest

from fleet import errors
from fleet.clock import epoch_s
from scheduler.compute import filters
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.engine.decide import decide
from scheduler.engine.pipeline import prepare
from scheduler.nova.polling import Polled
from tests import factories
from tests.clock import FakeClock
from tests.factories import PlacedInstance, Service, changes, node, request


class FakeFeed:
    """Returns the changes that the test adds; like the real one, it serves one thread at a time."""

    def __init__(self, *batches, hosts=()):
        self.batches = list(batches)
        self.hosts = dict(hosts)
        self.reads = []
        self.busy = threading.Lock()

    def read(self, since):
        assert self.busy.acquire(blocking=False), "two threads read at once"
        try:
            self.reads.append(since)
            newer = [batch for batch in self.batches if batch.generation > since]
            return newer[0] if newer else changes(generation=since)
        finally:
            self.busy.release()

    def read_host(self, host):
        return self.hosts[host]


def manager(*nodes, clock=None, feed=None, audit_feed=None):
    feed = feed or FakeFeed(changes(nodes, generation=1, full=True))
    return HostManager(feed, audit_feed or FakeFeed(*feed.batches), clock=clock or FakeClock(), booking_timeout_s=60)


def select(host_manager, asked):
    pipeline = factories.pipeline([filters.RamFilter()])
    work = functools.partial(decide, pipeline, prepare(pipeline, asked), chance=random.Random(1))
    return host_manager.decide(work, asked.instance_uuids)


def test_refresh_asks_for_what_is_newer():
    """Each read starts where the last one ended."""
    feed = FakeFeed(changes([node("a")], generation=4, full=True), changes([node("b")], generation=7))
    host_manager = manager(feed=feed)
    assert not host_manager.loaded
    for _ in range(3):
        host_manager.refresh()
    assert ([0, 4, 7], 2) == (feed.reads, host_manager.counts()["nodes"])
    assert host_manager.loaded


def test_a_failed_read_counts_for_nobody():
    """While nothing is known a refresh that fails raises, and the next one reads again from the same place."""

    class Failing(FakeFeed):
        def read(self, since):
            if not self.reads:
                self.reads.append("failed")
                raise ConnectionError
            return super().read(since)

    feed = Failing(changes([node()], generation=1, full=True))
    host_manager = manager(feed=feed)
    with pytest.raises(errors.StaleState):
        host_manager.refresh()
    assert not host_manager.loaded
    host_manager.refresh()
    assert ["failed", 0] == feed.reads


class Away(FakeFeed):
    """A feed whose database can be made unreachable."""

    away = False

    def read(self, since):
        if self.away:
            raise ConnectionError("no route to host")
        return super().read(since)


def test_the_database_is_away_for_a_while(caplog):
    """Decisions go on by what is known, and say STALE, until that is too old; then a typed error says why."""
    clock = FakeClock()
    feed = Away(changes([node(memory_mb=4096)], generation=1, full=True))
    host_manager = manager(feed=feed, clock=clock)
    host_manager.refresh()
    feed.away = True
    clock.advance(60)
    host_manager.refresh()
    made = select(host_manager, request())
    assert (True, 60.0, 1) == (made.state.stale, made.state.age_s, made.state.generation)
    assert any("STALE" in record.getMessage() for record in caplog.records)
    clock.advance(1)
    with pytest.raises(errors.StaleState, match=r"ConnectionError: no route to host.*61 s old") as refused:
        host_manager.refresh()
    assert "STALE_STATE" == refused.value.reason_code
    feed.away = False
    host_manager.refresh()
    assert not select(host_manager, request()).state.stale


def test_requests_that_wait_share_a_read():
    """Ten requests that come while a read is under way need one more read between them, not ten."""

    class Slow(FakeFeed):
        def __init__(self, *batches):
            super().__init__(*batches)
            self.begun, self.go_on = threading.Event(), threading.Event()

        def read(self, since):
            self.begun.set()
            assert self.go_on.wait(10)
            return super().read(since)

    class Turnstile:
        """A lock that counts the threads that have reached it."""

        def __init__(self):
            self.lock, self.came = threading.Lock(), threading.Semaphore(0)

        def __enter__(self):
            self.came.release()
            self.lock.acquire()

        def __exit__(self, *exc_info):
            self.lock.release()

    feed = Slow(changes([node()], generation=1, full=True))
    host_manager = manager(feed=feed)
    turnstile = host_manager._turnstile = Turnstile()
    with concurrent.futures.ThreadPoolExecutor(11) as pool:
        first = pool.submit(host_manager.refresh)
        assert feed.begun.wait(10)
        others = [pool.submit(host_manager.refresh) for _ in range(10)]
        for _ in range(11):
            assert turnstile.came.acquire(timeout=10)
        feed.go_on.set()
        for each in (first, *others):
            each.result(10)
    assert [0, 1] == feed.reads


def test_the_last_room_is_given_once():
    """Of many requests at a time exactly as many are placed as there is room."""
    host_manager = manager(node("a", memory_mb=4096), node("b", memory_mb=3072))
    host_manager.refresh()

    def ask(number):
        asked = factories.request({"memory_mb": 1024}, {"uuid": factories.uuid(number)})
        named = asked.__class__.from_wire({**asked.request_spec, "instance_uuids": [factories.uuid(number)]}, {})
        return select(host_manager, named).complete

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        placed = list(pool.map(ask, range(1, 21)))
    assert 7 == sum(placed)
    assert 7 == host_manager.counts()["bookings"]


def test_a_refused_request_books_nothing():
    """All instances are placed or none: what was picked before hosts ran out is free again."""
    host_manager = manager(node(memory_mb=4096))
    host_manager.refresh()
    assert not select(host_manager, request({"memory_mb": 2048}, count=3)).complete
    assert 0 == host_manager.counts()["bookings"]


def test_asking_again_ends_the_former_booking():
    """A build that is scheduled anew does not compete with its own lost pick."""
    host_manager = manager(node(memory_mb=4096))
    host_manager.refresh()
    for _ in range(3):
        assert select(host_manager, request({"memory_mb": 4096})).complete
    assert 1 == host_manager.counts()["bookings"]


def test_bookings_expire_with_time():
    """An unconfirmed pick frees its room again."""
    clock = FakeClock()
    host_manager = manager(node(memory_mb=4096), clock=clock)
    host_manager.refresh()
    other = request({"memory_mb": 4096}, {"uuid": factories.uuid(7)})
    assert select(host_manager, request({"memory_mb": 4096})).complete
    other = other.__class__.from_wire({**other.request_spec, "instance_uuids": [factories.uuid(7)]}, {})
    assert not select(host_manager, other).complete
    clock.advance(60)
    assert select(host_manager, other).complete


def test_a_comparison_repairs_and_does_not_go_back():
    """What the feed missed is found; what was committed during the comparison stays."""
    first = changes([node("a"), node("gone")], generation=1, full=True)
    newest = changes([node("a", memory_mb=1024)], generation=3, services=[])
    feed = FakeFeed(first, newest)
    audit_feed = FakeFeed(changes([node("a"), node("missed")], generation=2, full=True))
    host_manager = manager(feed=feed, audit_feed=audit_feed)
    host_manager.refresh()
    host_manager.refresh()
    host_manager.compare()
    # "a" has shrunk to 1 GB since the comparison's state; "gone" is dropped, "missed" is found.
    placed = select(host_manager, request({"memory_mb": 2048}, count=8)).picks
    assert {("missed", "missed")} == {pick.key for pick in placed}
    assert 2 == host_manager.counts()["nodes"]


def test_a_comparison_repairs_the_time_of_a_heartbeat():
    """But a heartbeat that was shown while the comparison was read is newer."""
    clock = FakeClock()
    seen = {name: clock() + datetime.timedelta(seconds=600) for name in "ab"}
    services = [Service(name, last_seen_up=seen[name]) for name in "ab"]
    feed = FakeFeed(changes([node("a"), node("b")], generation=1, full=True, services=services))
    now_right = [Service(name, last_seen_up=clock() - datetime.timedelta(seconds=100)) for name in "ab"]
    audit_feed = FakeFeed(changes([node("a"), node("b")], generation=1, full=True, services=now_right))
    host_manager = manager(feed=feed, audit_feed=audit_feed, clock=clock)
    host_manager.refresh()

    def beat_meanwhile(since, read=audit_feed.read):
        found = read(since)
        feed.batches.append(changes(generation=2, heartbeats=[("b", clock())]))
        host_manager.refresh()
        return found

    audit_feed.read = beat_meanwhile
    host_manager.compare()
    shown = host_manager.consider(lambda hosts, _state: hosts.column("last_seen_up").tolist())
    assert [epoch_s(clock()) - 100, epoch_s(clock())] == shown


def test_a_reading_shows_that_the_clock_has_gone_back():
    """The heartbeats that it brings are judged by the new time."""
    clock = FakeClock()
    feed = FakeFeed(changes([node("a")], generation=1, full=True))
    host_manager = manager(feed=feed, clock=clock)
    host_manager.refresh()

    def step_back(since, read=feed.read):
        clock.advance(-600)
        new = [Service("b", last_seen_up=clock())]
        feed.batches.append(changes([node("b")], generation=2, services=new, heartbeats=[("a", clock())]))
        return read(since)

    feed.read = step_back
    host_manager.refresh()
    assert ["a", "b"] == host_manager.hosts_up()[0]


def test_hosts_up():
    """Enabled hosts with a recent heartbeat, each once."""
    clock = FakeClock()
    services = [Service("a"), Service("b", disabled=True), Service("c", last_seen_up=None)]
    feed = FakeFeed(
        changes(
            [node("a", "1"), node("a", "2"), node("b"), node("c")],
            services=services,
            full=True,
            instances=[PlacedInstance()],
        )
    )
    host_manager = manager(feed=feed, clock=clock)
    host_manager.refresh()
    assert ["a"] == host_manager.hosts_up()[0]
    clock.advance(61)
    assert ["a"] == host_manager.hosts_up()[0]  # nobody has looked since
    host_manager.refresh()
    assert [] == host_manager.hosts_up()[0]


def test_one_host_is_compared_without_missing_others():
    """What other hosts have changed since the cache was read is applied as well, and not skipped for ever."""
    feed = FakeFeed(changes([node("a", memory_mb=4096), node("b", memory_mb=4096)], generation=1, full=True))
    feed.hosts["a"] = changes([node("a", memory_mb=4096)], generation=2)
    host_manager = manager(feed=feed, audit_feed=feed)
    host_manager.refresh()
    feed.batches = [changes([node("b", memory_mb=8192)], generation=2)]
    host_manager.compare_host("a")
    host_manager.refresh()
    made = select(host_manager, request({"memory_mb": 8000}))
    assert ["b"] == [pick.key[0] for pick in made.picks]


class Stepped:
    """A host manager with a wall clock that is stepped, and the seconds that have really passed."""

    def __init__(self, feed, kind=HostManager):
        self.wall, self.passed_s = FakeClock(), 1000.0
        self.hosts = kind(feed, FakeFeed(*feed.batches, hosts=feed.hosts), clock=self.wall, booking_timeout_s=60)
        self.hosts.elapsed_s = lambda: self.passed_s
        self.hosts.refresh()

    def step(self, by_s, passed_s=0.0):
        self.passed_s += passed_s
        self.wall.advance(by_s + passed_s)


STEPS = pytest.mark.parametrize("step_s", [-3600, -300, 300, 3600])


@STEPS
def test_a_step_of_the_clock_neither_ends_nor_keeps_bookings(step_s):
    world = Stepped(FakeFeed(changes([node(memory_mb=4096)], generation=1, full=True)))
    one = request({"memory_mb": 4096})
    other = one.__class__.from_wire({**one.request_spec, "instance_uuids": [factories.uuid(7)]}, {})
    assert select(world.hosts, one).complete
    world.step(step_s)
    assert not select(world.hosts, other).complete
    world.step(0, passed_s=60)
    assert select(world.hosts, other).complete


@STEPS
def test_a_step_of_the_clock_makes_states_neither_young_nor_old(step_s):
    feed = Away(changes([node(memory_mb=4096)], generation=1, full=True))
    world = Stepped(feed)
    feed.away = True
    world.step(step_s, passed_s=60)
    world.hosts.refresh()
    assert 60.0 == select(world.hosts, request()).state.age_s
    world.step(0, passed_s=1)
    with pytest.raises(errors.StaleState, match="61 s old"):
        world.hosts.refresh()


@STEPS
def test_a_step_of_the_clock_delays_no_comparison_of_a_host(step_s, caplog):
    caplog.set_level("INFO")
    there = changes([node("a")], generation=1, full=True)
    world = Stepped(FakeFeed(there, hosts={"a": there}))
    for passed_s in (0, 29, 1):
        world.step(step_s, passed_s)
        world.hosts.compare_host("a")
    assert 2 == sum("Compared host a" in line for line in caplog.messages)


@STEPS
def test_a_step_of_the_clock_makes_a_polled_cache_neither_young_nor_old(step_s):
    feed = FakeFeed(changes([node()], generation=1, full=True))
    world = Stepped(feed, type("PolledHosts", (Polled, HostManager), {}))
    world.step(step_s, passed_s=60)
    world.hosts.refresh()
    assert 1 == len(feed.reads)
    world.step(0, passed_s=1)
    world.hosts.refresh()
    assert 2 == len(feed.reads)


@pytest.mark.parametrize(
    "gone", [{"deleted": True, "vm_state": "deleted"}, {"host": None}], ids=["deleted", "given back"]
)
def test_a_comparison_releases_what_is_over(gone):
    """A booking ends when its instance was deleted, or its build given back, just before everything was read."""
    asked = request({"memory_mb": 3000})
    (uuid,) = asked.instance_uuids
    feed = FakeFeed(changes([node("a", memory_mb=4096)], generation=1, full=True))
    everything = FakeFeed(changes([node("a", memory_mb=4096)], generation=2, full=True))
    host_manager = manager(feed=feed, audit_feed=everything)
    host_manager.refresh()
    assert select(host_manager, asked).complete
    assert 1 == host_manager.counts()["bookings"]
    instance = PlacedInstance(uuid, **{"host": "a", "node": "a", **gone})
    feed.batches = [changes(instances=[instance], generation=2)]
    host_manager.compare()
    assert 0 == host_manager.counts()["bookings"]
