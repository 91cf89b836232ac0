# SPDX-License-Identifier: Apache-2.0
"""The schedulers divide the hosts by their service records, and send each other their bookings."""

from __future__ import annotations

import functools
import random

import pytest

from fleet.context import new_context
from fleet.rpc import deferred
from scheduler.compute import filters
from scheduler.compute.manager import SchedulerManager
from scheduler.engine.decide import decide
from scheduler.engine.pipeline import prepare
from scheduler.peers.neighbours import Neighbours
from tests import factories
from tests.factories import node, request, uuid
from tests.unit.scheduler.test_host_manager import manager

BOTH = ["s1", "s2"]


class Bus:
    """Brings bookings to the managers that a test gives; ``fails`` is raised instead, ``during`` is called in a send.

    ``sent`` has the messages with bookings.
    """

    def __init__(self):
        self.sent = []
        self.managers = []
        self.fails = None
        self.during = lambda: None

    def note_bookings(self, context, sender, bookings):
        if self.fails is not None:
            raise self.fails
        if bookings:
            self.sent.append((sender, bookings))
            during, self.during = self.during, lambda: None
            during()
        for each in self.managers:
            each.note_bookings(context, sender=sender, bookings=bookings)


class One:
    """A scheduler with its manager and its neighbours."""

    def __init__(self, name, bus, live, incarnation="once", workers=1, number=0):
        self.host_manager = manager(node(memory_mb=4096), node("host2", memory_mb=4096))
        self.host_manager.refresh()
        self.neighbours = Neighbours(self.host_manager, bus, lambda: live, name, incarnation, workers, number)
        self.host_manager.tell_booked = self.neighbours.tell
        self.neighbours.follow()
        bus.managers.append(SchedulerManager(self, hear=self.neighbours.hear))

    def select(self, number=1000):
        pipeline = factories.pipeline([filters.RamFilter()])
        asked = request({"id": 7}, {"project_id": "p1"})
        work = functools.partial(decide, pipeline, prepare(pipeline, asked), chance=random.Random(1))
        return self.host_manager.decide(work, (uuid(number),))

    def booked(self):
        return self.host_manager.counts()["bookings"]

    def divided_by(self):
        return self.host_manager._cache.shares.schedulers.incarnations

    def refresh(self):
        self.host_manager.refresh()

    def note_bookings(self, booked):
        pass


@pytest.fixture
def bus():
    return Bus()


def test_a_booking_reaches_the_others(bus):
    """The others count it; its sender counts it once."""
    one, other = One("s1", bus, BOTH), One("s2", bus, BOTH)
    made = one.select()
    (pick,) = made.picks
    ((sender, (sent,)),) = bus.sent
    assert ("s1 0 once", pick.key) == (sender, (sent["host"], sent["nodename"]))
    assert {"free_ram_mb": -1024, "vcpus_used": 1}.items() <= sent["amounts"].items()
    assert 1 == one.booked() == other.booked()


def test_the_others_know_the_flavor_and_the_project(bus):
    """Filters and weighers of all schedulers find them at the instance."""
    one, other = One("s1", bus, BOTH), One("s2", bus, BOTH)
    one.select()
    assert (7, "p1") == known(one) == known(other)


def known(scheduler):
    entry = scheduler.host_manager.consider(lambda hosts, _state: hosts.placed(uuid(1000)))
    return entry.instance_type_id, entry.project_id


def test_it_is_sent_after_the_answer(bus):
    """The caller does not wait for the cast."""
    one = One("s1", bus, BOTH)
    with deferred.replying():
        one.select()
        assert [] == bus.sent
    assert 1 == len(bus.sent)


def test_a_single_scheduler_sends_nothing(bus):
    """Nobody would count it."""
    one = One("s1", bus, ["s1"])
    one.select()
    assert [] == bus.sent


def test_bookings_during_a_send_go_in_the_next_message(bus):
    """There is one message under way at a time, however many decisions are made meanwhile."""
    one = One("s1", bus, BOTH)
    (first,) = one.host_manager._cache.book(_made(one), 1e12)

    def meanwhile():
        for _number in range(3):
            one.neighbours.tell([first])
        assert 1 == len(bus.sent)

    bus.during = meanwhile
    one.neighbours.tell([first])
    assert [1, 3] == [len(bookings) for _sender, bookings in bus.sent]


def _made(one):
    pipeline = factories.pipeline([])

    def work(hosts, state):
        return decide(pipeline, prepare(pipeline, request()), hosts, random.Random(1))

    return one.host_manager.consider(work)


def test_a_broker_that_is_away_does_no_harm(bus, caplog):
    """One line in the log, and the next booking is sent again."""
    caplog.set_level("INFO")
    one = One("s1", bus, BOTH)
    bus.fails = OSError("no broker")
    assert one.select(1).complete
    assert one.select(2).complete
    assert 1 == len([record for record in caplog.records if "Cannot send bookings" in record.getMessage()])
    bus.fails = None
    one.select(3)
    assert 1 == len(bus.sent)


def test_shares_stay_while_the_records_cannot_be_read(bus):
    """The database is away: the hosts stay divided as they were."""
    live = list(BOTH)
    one = One("s1", bus, live)
    shares = one.host_manager._cache.shares

    def away():
        raise OSError("no database")

    one.neighbours._live = away
    one.neighbours.follow()
    assert ("s1", "s2") == shares.schedulers.services
    one.neighbours._live = lambda: ["s2", "s3"]  # its own record is late
    one.neighbours.follow()
    assert ("s1", "s2", "s3") == shares.schedulers.services


SAME_NAME = "Another fleet-scheduler has the name s1, too"


def test_two_daemons_of_one_name(bus, caplog):
    """They divide the hosts, count each other's bookings, and log one line a minute for the operator."""
    pair = [One("s1", bus, ["s1"], incarnation) for incarnation in ("a", "b")]
    for _round in range(2):
        for each in pair:
            each.neighbours.follow()
    assert [("a", "b")] * 2 == [each.divided_by() for each in pair]
    pair[0].select()
    assert [1, 1] == [each.booked() for each in pair]
    assert 2 == len([record for record in caplog.records if SAME_NAME in record.getMessage()])


def test_a_daemon_of_the_same_name_stops(bus):
    """The other one has its hosts again after three rounds."""
    one, other = (One("s1", bus, ["s1"], incarnation) for incarnation in ("a", "b"))
    other.neighbours.follow()
    found = []
    for _round in range(4):
        one.neighbours.follow()
        found.append(one.divided_by())
    assert [("a", "b")] * 3 + [("a",)] == found


def test_workers_of_one_daemon_are_told_apart(bus, caplog):
    """They have one name on purpose, and numbers."""
    workers = [One("s1", bus, ["s1"], incarnation, 2, number) for number, incarnation in enumerate("ab")]
    for each in workers:
        each.neighbours.follow()
    assert [("a",), ("b",)] == [each.divided_by() for each in workers]
    assert SAME_NAME not in caplog.text


def sent(**amounts):
    return [{"instance_uuid": uuid(1), "host": "host1", "nodename": "host1", "amounts": amounts}]


@pytest.mark.parametrize("sent", [None, [{"host": "a"}], sent(free_ram_mb="much"), sent(free_ram_mb=-1e308)])
def test_a_cast_that_makes_no_sense_is_ignored(bus, caplog, sent):
    """One line for the operator."""
    one = One("s1", bus, BOTH)
    bus.managers[0].note_bookings(new_context(), sender="s9 0", bookings=sent)
    assert 0 == one.booked()
    assert 1 == len([record for record in caplog.records if "A cast is not understood" in record.getMessage()])


@pytest.mark.parametrize("amounts", [{}, {"disabled": 1, "of_a_later_release": 3}, {"last_seen_up": 1}])
def test_a_booking_without_amounts_that_count(bus, amounts):
    """It takes nothing of its host, changes no flag of it, and ends as any other."""
    one = One("s1", bus, BOTH)
    one.select(1000)
    bus.managers[0].note_bookings(new_context(), sender="s9 0", bookings=sent(**amounts))
    assert 2 == one.booked()
    assert [False] * 2 == [state.service["disabled"] for state in one.host_manager.get_all_host_states()]
    one.host_manager.compare()
    one.host_manager.release([uuid(1000), uuid(1)])
    assert (0, [4096] * 2) == (one.booked(), [state.free_ram_mb for state in one.host_manager.get_all_host_states()])
