# SPDX-License-Identifier: Apache-2.0
"""The hosts that each scheduler prefers, and what it does where its own have no room."""

from __future__ import annotations

import dataclasses
import functools
import random

import numpy
import pytest

from fleet.clock import epoch_s
from scheduler.compute import filters, weights
from scheduler.compute.domain.tracked_instance import TrackedInstance
from scheduler.engine.decide import decide
from scheduler.engine.hosts.table import OWN
from scheduler.engine.pipeline import prepare
from scheduler.engine.share import ShareUse
from scheduler.state import hints
from scheduler.state.shares import Schedulers
from tests import factories
from tests.factories import NOW_S, PlacedInstance, changes, node, request, uuid
from tests.unit.scheduler.test_host_manager import manager

HOSTS = [f"host{number:03}" for number in range(120)]
THREE = ("s1", "s2", "s3")
PICKED = uuid(1000)


def owned(cache, services, mine, *of_process):
    """The hosts that one scheduler prefers."""
    cache.shares.follow(Schedulers(tuple(services), mine, *of_process))
    hosts = cache.candidates(NOW_S)
    mask = hosts.own()
    return {hosts.key(row)[0] for row in numpy.flatnonzero(hosts.present() if mask is None else mask).tolist()}


@pytest.fixture
def cache():
    return factories.cache(*(node(host) for host in HOSTS))


def test_each_host_has_one_owner(cache):
    """The shares of the live schedulers cover all hosts, do not overlap, and are about equally large."""
    shares = [owned(cache, THREE, each) for each in THREE]
    assert sorted(HOSTS) == sorted(host for share in shares for host in share)
    assert all(25 <= len(share) <= 55 for share in shares)


def test_only_the_hosts_of_who_comes_and_goes_move(cache):
    """A scheduler that joins takes hosts and moves none among the others; when it dies, these return."""
    before = {each: owned(cache, THREE, each) for each in THREE}
    joined = {each: owned(cache, (*THREE, "s4"), each) for each in (*THREE, "s4")}
    assert all(joined[each] <= before[each] for each in THREE)
    assert joined["s4"]
    assert before == {each: owned(cache, THREE, each) for each in THREE}


def test_workers_of_one_service_divide_its_hosts(cache):
    """They have one service record, and still one share each."""
    whole = owned(cache, THREE, "s2")
    parts = [owned(cache, THREE, "s2", 2, number) for number in range(2)]
    assert whole == parts[0] | parts[1]
    assert not parts[0] & parts[1]


@pytest.mark.parametrize("services", [("s2",), THREE])
def test_daemons_of_one_name_divide_its_hosts(cache, services):
    """They have one service record by mistake, and still one share each."""
    whole = owned(cache, services, "s2", 2, 1)
    parts = [owned(cache, services, "s2", 2, 1, ("a", "b"), incarnation) for incarnation in "ab"]
    assert whole == parts[0] | parts[1]
    assert not parts[0] & parts[1]
    assert all(len(part) > len(whole) / 5 for part in parts)


def test_a_host_that_comes_later_gets_its_owner(cache):
    """Whichever of the two comes first: the host, or the other schedulers."""
    owned(cache, THREE, "s1")
    cache.apply(changes([node("later1"), node("later2"), node("later3")], generation=2))
    late = {"later1", "later2", "later3"}
    known = owned(cache, THREE, "s1") & late
    fresh = factories.cache(*(node(host) for host in sorted(late)))
    assert known == owned(fresh, THREE, "s1")


def test_a_single_scheduler_has_no_share(cache):
    """It decides over all hosts, and its record has nothing about a share."""
    cache.shares.follow(Schedulers(("s1",), "s1"))
    hosts = cache.candidates(NOW_S)
    assert hosts.own() is None
    made = factories.decision(factories.pipeline([], [weights.RAMWeigher()]), hosts, request())
    assert made.share is None
    assert "share" not in made.to_wire()


# -- the decision ---------------------------------------------------------------------------------------------------------


def divided(own, *nodes):
    """A cache in which the hosts named in ``own`` are this scheduler's."""
    cache = factories.cache(*nodes)
    cache.shares.follow(Schedulers(("s1", "s2"), "s1"))
    table = cache._inventory.table
    table.note_all(OWN, numpy.array([key[0] in own for key in table.keys]))
    return cache


def decided(own, nodes, asked=None, plugins=(), weighers=None, **options):
    hosts = divided(own, *nodes).candidates(NOW_S)
    pipeline = factories.pipeline([*plugins, filters.RamFilter()], weighers or [weights.RAMWeigher()], **options)
    return factories.decision(pipeline, hosts, asked or request())


def hosts_of(made):
    return [pick.key[0] for pick in made.picks]


FOUR = (node("a", memory_mb=2048), node("b", memory_mb=4096), node("c", memory_mb=8192), node("d", memory_mb=16384))


def test_the_best_host_of_the_share_is_chosen():
    """d has the most memory, and b is the best of a and b. The alternates are those of the share, and then the best."""
    made = decided("ab", FOUR, alternates=2)
    assert ["b"] == hosts_of(made)
    assert ["a", "d"] == [place.host for place in made.picks[0].alternates]
    assert ShareUse(hosts=2, passed=2, beyond=0) == made.share


def test_a_share_without_room_refuses_nothing():
    """8 GB fit only on c and d."""
    made = decided("ab", FOUR, request({"memory_mb": 8192}))
    assert ["d"] == hosts_of(made)
    assert {"hosts": 2, "passed": 0, "beyond": 1} == made.to_wire()["share"]


def test_a_scheduler_without_hosts_decides_over_all():
    """With more schedulers than hosts, some own none."""
    assert ["d"] == hosts_of(decided("", FOUR))


def test_a_request_for_many_instances_uses_all_hosts():
    """Two instances are placed in the share of two hosts, three over all hosts."""
    weigher = (weights.NumInstancesWeigher(-1.0),)
    assert {"a", "b"} == set(hosts_of(decided("ab", FOUR, request({"memory_mb": 512}, count=2), weighers=weigher)))
    made = decided("ab", FOUR, request({"memory_mb": 512}, count=4), weighers=weigher)
    assert {"a", "b", "c", "d"} == set(hosts_of(made))


def test_a_share_that_fills_up_during_a_request():
    """After one instance each, the share is full, and the request goes on elsewhere."""
    small = (node("a", memory_mb=1024), node("b", memory_mb=1024), node("c", memory_mb=8192))
    made = decided("ab", small, request(count=2), (filters.NumInstancesFilter(1),))
    assert {"a", "b"} == set(hosts_of(made))
    made = decided("a", small, request(count=1))
    assert ["a"] == hosts_of(made)


OUTRANKING = [
    ("builds have failed on the own host", {"failed_builds": 3}, {}, weights.BuildFailureWeigher(1e6), "b"),
    ("amounts of room are not worth it", {"memory_mb": 2048}, {}, weights.RAMWeigher(1e6), "a"),
    ("the other hypervisor is newer", {}, {}, weights.HypervisorVersionWeigher(), "b"),
]


@pytest.mark.parametrize(("name", "own", "other", "weigher", "expected"), OUTRANKING)
def test_what_goes_past_the_share(name, own, other, weigher, expected):
    """A kind of host that is to be preferred or avoided counts more than the share; an amount of room does not."""
    mine = node("a", **{"hypervisor_version": 1, **own})
    theirs = node("b", **{"hypervisor_version": 2, **other})
    assert [expected] == hosts_of(decided("a", (mine, theirs), weighers=[weigher])), name


def test_a_group_is_kept_together_across_shares():
    """Soft affinity outranks the share."""
    placed = [PlacedInstance(uuid(1), "c")]
    group = {"group_policies": ["soft-affinity"], "group_members": [uuid(1)], "group_hosts": ["c"]}
    cache = divided("ab", *FOUR)
    cache.apply(changes(generation=2, instances=placed))
    pipeline = factories.pipeline([], [weights.RAMWeigher(), weights.ServerGroupSoftAffinityWeigher(10.0)])
    made = factories.decision(pipeline, cache.candidates(NOW_S), request(**group))
    assert ["c"] == hosts_of(made)


def test_a_subset_is_drawn_from_the_share():
    """With scheduler_host_subset_size 3, no host of another share is drawn while the own have room."""
    found = {hosts_of(decided("ab", FOUR, host_subset_size=3))[0] for _number in range(5)}
    hosts = divided("ab", *FOUR).candidates(NOW_S)
    pipeline = factories.pipeline([], [weights.RAMWeigher()], host_subset_size=3)
    found |= {hosts_of(factories.decision(pipeline, hosts, request(), seed))[0] for seed in range(20)}
    assert {"a", "b"} == found


@pytest.mark.long
def test_packing_is_as_good_as_by_one_scheduler():
    """97 % full, four schedulers leave at most 1 % of the fleet's 8-core slots less than one does.

    Each share has a host that is being filled, so a few slots are the price.
    """
    one, four = (_free_slots(count, hosts=100, vcpus=64) for count in (1, 4))
    assert one - four <= 0.01 * 100 * 64 / 8


def _free_slots(schedulers, hosts, vcpus):
    """Fill a fleet with requests that the schedulers take in turns, let instances leave; the mean of the free slots."""
    chance = random.Random(1)
    cache = factories.cache(
        *(node(f"host{number:03}", vcpus=vcpus, cpu_allocation_ratio=1.0) for number in range(hosts))
    )
    pipeline = factories.pipeline([filters.CoreFilter()], [weights.CPUWeigher(-1.0)])
    table = cache._inventory.table
    names = tuple(f"s{number}" for number in range(schedulers))
    shares = []
    for name in names:
        cache.shares.follow(Schedulers(names, name))
        shares.append(table.column(OWN).copy())
    held, used, slots = [], 0, []
    for number in range(3_000):
        table.note_all(OWN, shares[number % schedulers])
        size = chance.choice((1, 1, 2, 2, 4, 8))
        asked = dataclasses.replace(request({"vcpus": size}), instance_uuids=(uuid(number),))
        made = factories.decision(pipeline, cache.candidates(NOW_S), asked)
        if made.complete:
            cache.book(made, NOW_S + 1e9)
            held.append((uuid(number), size))
            used += size
        while used > 0.97 * hosts * vcpus:
            leaving, size = held.pop(chance.randrange(len(held)))
            cache.release(leaving)
            used -= size
        if number >= 2_000 and number % 20 == 0:
            slots.append(int(((vcpus - table.column("vcpus_used")) // 8).sum()))
    return sum(slots) / len(slots)


# -- bookings of other schedulers -----------------------------------------------------------------------------------------


def told(instance=PICKED, host="host1", **more):
    """A booking in the cast's form."""
    amounts = {"free_ram_mb": -1024, "num_instances": 1}
    return {"instance_uuid": instance, "host": host, "nodename": host, "amounts": amounts, "came_from": None, **more}


def hear(host_manager, *bookings):
    columns = host_manager.domain.layout.columns
    host_manager.hint_bookings(functools.partial(hints.bookings, list(bookings), columns, TrackedInstance))


def free_mb(host_manager, host="host1"):
    def read(hosts, _state):
        return hosts.value(hosts.row_of((host, host)), "free_ram_mb")

    return host_manager.consider(read)


@pytest.fixture
def host_manager():
    made = manager(node(memory_mb=4096), node("host2", memory_mb=4096))
    made.refresh()
    return made


def test_a_booking_of_another_scheduler_counts(host_manager):
    """Its room is gone at once, and comes back when the feed shows the instance elsewhere."""
    hear(host_manager, told())
    assert 3072 == free_mb(host_manager)
    host_manager._feed.batches.append(changes(generation=2, instances=[PlacedInstance(uuid(1000), "host2")]))
    host_manager.refresh()
    assert 4096 == free_mb(host_manager)


def test_a_booking_of_another_scheduler_soon_expires(host_manager):
    """After 30 s only time can show that the build was given back."""
    hear(host_manager, told())
    host_manager._clock.advance(30)
    assert 4096 == free_mb(host_manager)


LATE = [
    ("the feed has shown the claim", PlacedInstance(uuid(1000), "host1")),
    ("the feed has shown it elsewhere", PlacedInstance(uuid(1000), "host2")),
    ("the instance is over", PlacedInstance(uuid(1000), None, vm_state="error")),
]


@pytest.mark.parametrize(("name", "shown"), LATE)
def test_a_late_booking_does_no_harm(host_manager, name, shown):
    """The feed is ahead of the cast."""
    host_manager._feed.batches.append(changes(generation=2, instances=[shown]))
    host_manager.refresh()
    hear(host_manager, told())
    assert 4096 == free_mb(host_manager), name


def test_the_own_booking_stands(host_manager):
    """A cast about an instance that this scheduler has booked changes nothing."""
    pipeline = factories.pipeline([filters.RamFilter()])
    work = functools.partial(decide, pipeline, prepare(pipeline, request()), chance=random.Random(1))
    (pick,) = host_manager.decide(work, (uuid(1000),)).picks
    other = "host2" if pick.key[0] == "host1" else "host1"
    hear(host_manager, told(host=other))
    assert 4096 == free_mb(host_manager, other)
    assert 3072 == free_mb(host_manager, pick.key[0])


def test_a_booking_of_a_move(host_manager):
    """The instance is still on the host that it moves from."""
    host_manager._feed.batches.append(changes(generation=2, instances=[PlacedInstance(uuid(1000), "host2")]))
    host_manager.refresh()
    hear(host_manager, told(came_from="host2"))
    assert 3072 == free_mb(host_manager)


def test_unknown_columns_and_hosts_are_left_out(host_manager):
    """A newer scheduler may know more columns, and a host may not be known here yet."""
    hear(host_manager, told(amounts={"free_ram_mb": -1024, "of the future": 1}), told(uuid(2), host="elsewhere"))
    assert 3072 == free_mb(host_manager)
    assert NOW_S == epoch_s(host_manager._clock())
