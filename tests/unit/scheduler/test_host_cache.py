# SPDX-License-Identifier: Apache-2.0
"""The cache follows the feed by differences, and counts a pick until the database shows its result."""

from __future__ import annotations

import dataclasses
import datetime

import pytest

from scheduler.compute.domain.tracked_instance import TrackedInstance
from scheduler.engine.hosts.consumption import Consumption
from scheduler.state.booking import Booking, Bookings
from tests import factories
from tests.factories import NOW, NOW_S, PlacedInstance, Service, aggregate, changes, node, request, uuid

PICKED = uuid(1000)


def books(cache, asked=None, expires_in_s=300):
    """Decide and book the way the host manager does."""
    made = factories.decision(factories.pipeline(), cache.candidates(NOW_S), asked or request({"memory_mb": 1024}))
    cache.book(made, NOW_S + expires_in_s)


def free(cache, host="host1"):
    hosts = cache.candidates(NOW_S)
    rows = hosts.rows[hosts.present()].tolist()
    return {hosts.key(row)[0]: hosts.value(row, "free_ram_mb") for row in rows}.get(host)


def tracked(cache, row=0):
    return sorted(cache.candidates(NOW_S).state(row).instances)


def test_ledger_adds_up_and_forgets():
    """Totals are of what is booked now; the oldest booking is overdue first."""
    ledger = Bookings()
    for number, expires_at in ((1, 10.0), (2, 20.0)):
        ledger.book(
            Booking(uuid(number), ("a", "a"), Consumption({"vcpus_used": 2, "free_ram_mb": -5}), expires_at, None)
        )
    assert {"vcpus_used": 4, "free_ram_mb": -10} == ledger.totals(("a", "a"))
    assert [uuid(1)] == ledger.overdue(10.0)
    ledger.release(uuid(1))
    assert {"vcpus_used": 2, "free_ram_mb": -5} == ledger.totals(("a", "a"))
    ledger.release(uuid(2))
    assert {} == ledger.totals(("a", "a"))
    assert None is ledger.release(uuid(2))


def test_a_booking_that_takes_nothing_is_released_after_another():
    """Totals of 0 do not mean that nothing is booked."""
    ledger = Bookings()
    amounts = ({"vcpus_used": 2}, {}, {"vcpus_used": 3}, {"vcpus_used": -3})
    for number, each in enumerate(amounts):
        ledger.book(Booking(uuid(number), ("a", "a"), Consumption(each), 10.0, None))
    released = [ledger.release(uuid(number)) is not None for number in (0, 2, 1, 3)]
    assert ([True] * 4, {}, []) == (released, ledger.totals(("a", "a")), ledger.overdue(10.0))


def test_a_pick_is_subtracted_at_once():
    """The next request sees the room gone, and the instance on its host."""
    cache = factories.cache(node(memory_mb=4096))
    books(cache)
    assert 3072 == free(cache)
    assert [PICKED] == tracked(cache)


SHOWN = [
    ("claimed where it was booked", PlacedInstance(PICKED, "host1"), 4096, [PICKED]),
    ("claimed elsewhere", PlacedInstance(PICKED, "host2"), 4096, []),
    ("in error", PlacedInstance(PICKED, None, vm_state="error"), 4096, []),
    ("deleted", PlacedInstance(PICKED, None, vm_state="deleted", deleted=True), 4096, []),
    ("given back", PlacedInstance(PICKED, None, vm_state="building", task_state="scheduling"), 4096, []),
    ("another instance", PlacedInstance(uuid(5), "host1"), 3072, [uuid(5), PICKED]),
]


@pytest.mark.parametrize(("name", "instance", "free_mb", "instances"), SHOWN)
def test_the_feed_ends_a_booking(name, instance, free_mb, instances):
    """A pick counts until the database shows what became of the instance."""
    cache = factories.cache(node(memory_mb=4096))
    books(cache)
    cache.apply(changes(generation=2, instances=[instance]))
    assert free_mb == free(cache), name
    assert instances == tracked(cache), name


@pytest.mark.parametrize(
    ("name", "instance", "free_mb"),
    [
        ("deleted", PlacedInstance(PICKED, None, vm_state="deleted", deleted=True), 4096),
        ("in error", PlacedInstance(PICKED, None, vm_state="error"), 4096),
        ("given back", PlacedInstance(PICKED, None, vm_state="building", task_state="scheduling"), 3072),
    ],
)
def test_a_request_for_what_is_over_books_nothing(name, instance, free_mb):
    """It was deleted while its request was on the way: the feed will not tell of it again."""
    cache = factories.cache(node(memory_mb=4096))
    cache.apply(changes(generation=2, instances=[instance]))
    books(cache)
    assert free_mb == free(cache), name


def test_a_claim_replaces_its_booking():
    """The claim's transaction shows usage and instance together: the room is counted once."""
    cache = factories.cache(node(memory_mb=4096))
    books(cache)
    claimed = node(memory_mb=4096, memory_mb_used=1024)
    cache.apply(changes([claimed], generation=2, instances=[PlacedInstance(PICKED)]))
    assert 3072 == free(cache)


def test_a_report_does_not_end_a_booking():
    """A host row that does not show the instance yet leaves the pick counted."""
    cache = factories.cache(node(memory_mb=4096))
    books(cache)
    cache.apply(changes([node(memory_mb=8192)], generation=2))
    assert 7168 == free(cache)


def test_a_full_state_does_not_end_a_booking_that_it_may_be_older_than():
    """An instance without a host in a full comparison does not end a pick made meanwhile."""
    cache = factories.cache(node(memory_mb=4096))
    books(cache)
    waiting = PlacedInstance(PICKED, None, vm_state="building", task_state="placing")
    cache.apply(changes([node(memory_mb=4096)], generation=2, full=True, instances=[waiting]))
    assert 3072 == free(cache)
    assert [PICKED] == tracked(cache)


def test_an_instance_on_the_move_keeps_its_booking():
    """While it is on its former host, changes of its row there do not end the booking on the other host."""
    cache = factories.cache(node("old"), node("new", memory_mb=4096), instances=[PlacedInstance(PICKED, "old")])
    books(cache, request({"memory_mb": 1024}, force_hosts=["new"]))
    cache.apply(changes(generation=2, instances=[PlacedInstance(PICKED, "old", task_state="resizing")]))
    assert 3072 == free(cache, "new")
    cache.apply(changes(generation=3, instances=[PlacedInstance(PICKED, "new")]))
    assert 4096 == free(cache, "new")


@pytest.mark.parametrize(
    ("name", "task_state", "free_mb"),
    [
        ("no destination has claimed yet", "resize_prep", 3072),
        ("nor for an evacuation", "rebuilding", 3072),
        ("the destination's claim is in its row", "resize_migrating", 4096),
        ("and an evacuation's", "rebuild_spawning", 4096),
        ("it was given up", None, 4096),
    ],
)
def test_a_booking_for_a_move_ends_with_the_claim(name, task_state, free_mb):
    """Until then the row shows the instance on its former host; its task shows the progress of the move."""
    cache = factories.cache(node(memory_mb=4096), instances=[PlacedInstance(PICKED, "host2")])
    books(cache)
    cache.apply(changes(generation=2, instances=[PlacedInstance(PICKED, "host2", task_state=task_state)]))
    assert free_mb == free(cache), name


def test_a_booking_expires():
    """A booking that the database does not confirm in time is dropped."""
    cache = factories.cache(node(memory_mb=4096))
    books(cache, expires_in_s=10)
    cache.expire(NOW_S + 9)
    assert 3072 == free(cache)
    cache.expire(NOW_S + 10)
    assert 4096 == free(cache)
    assert [] == tracked(cache)


def test_a_booked_host_may_go_and_come_back():
    """A booking outlives its host's row."""
    cache = factories.cache(node(memory_mb=4096))
    books(cache)
    cache.apply(changes([dataclasses.replace(node(), deleted=True)], generation=2, services=[]))
    assert None is free(cache)
    cache.apply(changes([node(memory_mb=4096)], generation=3, services=[]))
    assert 3072 == free(cache)


def test_rows_are_reused():
    """A host that comes after another has gone inherits nothing from it."""
    cache = factories.cache(
        node("old", stats={"rack": "7"}), node("other"), aggregates=[aggregate(["old"], 1, availability_zone="east")]
    )
    cache.apply(changes([dataclasses.replace(node("old"), deleted=True)], generation=2, services=[]))
    cache.apply(changes([node("new")], generation=3))
    state = cache.candidates(NOW_S).state(0)
    assert ("new", {}, []) == (state.host, state.stats, state.aggregates)


@pytest.mark.parametrize("column", ["stats", "metrics", "labels"])
@pytest.mark.parametrize("text", ["5", "[1]", '"x"', "{", "[null]"])
def test_what_no_agent_reports_is_left_out(column, text):
    """Of a row that something else has written. The other values of the host count."""
    state = factories.cache(node("a", **{column: text})).candidates(NOW_S).state(0)
    assert ("a", {}, []) == (state.host, state.stats, state.metrics)


def test_hosts_are_those_with_a_service():
    """A node without a service record is no candidate; it becomes one when the record comes, in any order."""
    cache = factories.cache(node("a"), node("b"), services=[Service("a")])
    assert (16384, None) == (free(cache, "a"), free(cache, "b"))
    cache.apply(changes(generation=2, services=[Service("b"), Service("c")]))
    cache.apply(changes([node("c")], generation=3, services=[Service("a", deleted=True)]))
    assert (None, 16384, 16384) == (free(cache, "a"), free(cache, "b"), free(cache, "c"))


def test_a_full_state_drops_what_is_not_in_it():
    """Nodes, services, instances and aggregates that the database has lost are lost here too."""
    cache = factories.cache(
        node("a"),
        node("b"),
        node("c"),
        instances=[PlacedInstance(uuid(1), "a"), PlacedInstance(uuid(2), "a")],
        aggregates=[aggregate(["a"], 1), aggregate(["a"], 2)],
    )
    state = changes([node("a"), node("c")], generation=9, full=True, services=[Service("a")])
    kept = {"instances": [PlacedInstance(uuid(2), "a")], "aggregates": [aggregate(["a"], 2)]}
    cache.apply(dataclasses.replace(state, **kept))
    assert (16384, None, None) == (free(cache, "a"), free(cache, "b"), free(cache, "c"))
    host = cache.candidates(NOW_S).state(0)
    assert ([uuid(2)], [2]) == (sorted(host.instances), [each.id for each in host.aggregates])


def test_the_heartbeat_that_was_read_last_counts():
    """In a heartbeat or in a service row, and with an earlier time too: the clock that writes them may go back."""
    cache = factories.cache(node())
    later, earlier = NOW + datetime.timedelta(seconds=30), NOW - datetime.timedelta(seconds=30)
    readings = [
        (later, {"heartbeats": [("host1", later)]}),
        (earlier, {"heartbeats": [("host1", earlier), ("unknown", later)]}),
        (later, {"services": [Service(last_seen_up=later)]}),
        (earlier, {"services": [Service(last_seen_up=earlier)]}),
    ]
    shown = []
    for generation, (_expected, reading) in enumerate(readings, 2):
        cache.apply(changes(generation=generation, **reading))
        shown.append(cache.candidates(NOW_S).state(0).service["last_seen_up"])
    assert [expected for expected, _reading in readings] == shown


def test_aggregates_follow_their_changes():
    """Membership and metadata are those of the newest change; a deleted aggregate is gone."""
    cache = factories.cache(node("a"), node("b"), aggregates=[aggregate(["a"], 1, rack="1")])
    cache.apply(changes(generation=2, aggregates=[aggregate(["b"], 1, rack="2"), aggregate(["b"], 2, rack="3")]))
    racks = [[each.metadata["rack"] for each in cache.candidates(NOW_S).state(row).aggregates] for row in (0, 1)]
    assert [[], ["2", "3"]] == racks
    cache.apply(changes(generation=3, aggregates=[aggregate([], 2, deleted=True)]))
    assert ["2"] == [each.metadata["rack"] for each in cache.candidates(NOW_S).state(1).aggregates]


def test_nova_attributes_of_a_host():
    """A plugin finds nova's names and types."""
    cache = factories.cache(
        node(memory_mb_used=384, local_gb_used=30, running_vms=3, stats={"rack": "7"}, supported_instances=[["x"]]),
        services=[Service(disabled=True, disabled_reason="broken fan")],
    )
    state = cache.candidates(NOW_S).state(0)
    expected = {
        "host": "host1",
        "nodename": "host1",
        "hypervisor_hostname": "host1",
        "free_ram_mb": 16000,
        "total_usable_ram_mb": 16384,
        "free_disk_mb": 70 * 1024,
        "total_usable_disk_gb": 100,
        "disk_mb_used": 30 * 1024,
        "vcpus_total": 8,
        "vcpus_used": 0,
        "num_instances": 3,
        "num_io_ops": 0,
        "failed_builds": 0,
        "ram_allocation_ratio": 1.0,
        "hypervisor_type": "QEMU",
        "hypervisor_version": 6000001,
        "host_ip": "192.0.2.1",
        "supported_instances": [["x"]],
        "stats": {"rack": "7"},
        "metrics": [],
        "limits": {},
        "numa_topology": None,
        "pci_stats": None,
        "updated": NOW,
    }
    assert expected == {name: getattr(state, name) for name in expected}
    assert (True, "broken fan") == (state.service["disabled"], state.service["disabled_reason"])
    with pytest.raises(AttributeError):
        _ = state.no_such_thing


def test_a_late_cast_takes_nothing_back():
    """What the feed has told of an instance stands: its host, its type, and that it is gone."""
    cache = factories.cache(
        factories.node("h0"),
        factories.node("h1"),
        instances=[PlacedInstance(uuid(1), "h0", instance_type_id=7), PlacedInstance(uuid(2), "h0", deleted=True)],
    )
    cache.hint_instances(
        [TrackedInstance(uuid(1), "h1"), TrackedInstance(uuid(2), "h1"), TrackedInstance(uuid(3), "h1")]
    )
    cache.hint_instances([TrackedInstance(uuid(1), "h0", vm_state="active")])
    assert {uuid(1)} == cache.confirmed_on("h0")
    assert {uuid(3)} == cache.confirmed_on("h1")
    assert 7 == cache.candidates(NOW_S).state(0).instances[uuid(1)].instance_type_id


def test_plugins_cannot_write_into_what_is_known():
    """A plugin's notes on a host's stats are gone with the request, and aggregates cannot be written at all."""
    cache = factories.cache(
        factories.node("h0", stats={"a": "1"}), aggregates=[factories.aggregate(["h0"], availability_zone="z")]
    )
    state = cache.candidates(NOW_S).state(0)
    state.stats["seen"] = 1
    with pytest.raises(TypeError):
        state.aggregates[0].metadata["availability_zone"] = "elsewhere"
    assert {"a": "1"} == cache.candidates(NOW_S).state(0).stats


def test_a_full_comparison_lets_go_of_values_that_no_host_has():
    """However often a host's capabilities change, only those that some host has are kept for good."""
    cache = factories.cache(factories.node("h0"))
    for number in range(50):
        cache.apply(factories.changes([factories.node("h0", cpu_info=f'{{"model": "m{number}"}}')], number + 2))
    cache.apply(factories.changes([factories.node("h0", cpu_info='{"model": "m49"}')], 60, full=True))
    state = cache.candidates(NOW_S).state(0)
    assert "m49" in state.cpu_info
    assert len(cache._table.interned["capabilities"].values) <= 3
