# SPDX-License-Identifier: Apache-2.0
"""The RPC surface over each driver: what is answered, logged and notified."""

from __future__ import annotations

import dataclasses
import logging

import pytest
from oslo_messaging.rpc import dispatcher

from fleet import errors
from fleet.clock import seconds
from fleet.context import new_context
from fleet.objects import RequestSpec
from fleet.objects.flavor_mix import Counts, FlavorMix, Shape
from fleet.rpc import deferred
from scheduler.compute import filters
from scheduler.compute.drivers import driver_loading
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.compute.manager import SchedulerManager
from scheduler.engine import pipeline
from scheduler.state import decider
from tests import factories
from tests.clock import FakeClock
from tests.factories import PlacedInstance, changes, node, request
from tests.unit.hardware import builders
from tests.unit.scheduler.plugins import configuration
from tests.unit.scheduler.test_host_manager import FakeFeed


class FakeNotifier:
    def __init__(self):
        self.sent = []

    def info(self, context, event_type, payload):
        self.sent.append((event_type, payload))


class Scheduler:
    """A manager with its driver, over a feed that the test extends."""

    def __init__(self, *nodes, **options):
        self.feed = FakeFeed(changes(nodes, generation=1, full=True))
        self.notifier = FakeNotifier()
        conf = configuration(**options)
        self.clock = FakeClock()
        self.host_manager = HostManager(self.feed, FakeFeed(), clock=self.clock)
        self.driver = driver_loading.make_driver(conf, self.host_manager, self.notifier)
        self.manager = SchedulerManager(self.driver, self.clock)

    def select(self, asked, **replaced):
        return self.manager.select_destinations(
            new_context(),
            request_spec={**asked.request_spec, **replaced},
            filter_properties=dict(asked.filter_properties),
        )

    def refused(self, asked, **replaced):
        with pytest.raises(dispatcher.ExpectedException) as refusal:
            self.select(asked, **replaced)
        return refusal.value.exc_info[1]


def test_the_caller_is_answered_before_the_operator_is_told(caplog):
    """The line and the closing notification follow the answer."""
    caplog.set_level(logging.INFO)
    scheduler = Scheduler(node("host1"))
    with deferred.replying():
        assert ["host1"] == [each["host"] for each in scheduler.select(request())]
        assert not [record for record in caplog.records if "Placed" in record.getMessage()]
        assert ["scheduler.select_destinations.start"] == [event for event, _payload in scheduler.notifier.sent]
    assert 1 == len([record for record in caplog.records if "Placed" in record.getMessage()])
    assert ["start", "end"] == [event.rpartition(".")[2] for event, _payload in scheduler.notifier.sent]


def test_one_dict_for_each_instance():
    """The answer has the contract's keys, in the order of the instances."""
    scheduler = Scheduler(node("a"), *(node(name, memory_mb=8192) for name in "bc"), scheduler_max_attempts=2)
    first, second = scheduler.select(request(count=2))
    assert {"host", "nodename", "limits", "alternates", "decision"} == set(first)
    assert ("a", "a", {"memory_mb": 16384.0, "disk_gb": 100.0, "vcpu": 8.0}) == (
        first["host"],
        first["nodename"],
        first["limits"],
    )
    # a has twice the memory, but builds one instance by then.
    assert ("b", ["c"]) == (second["host"], [place["host"] for place in second["alternates"]])
    assert (2, 3, 2) == tuple(first["decision"][key] for key in ("requested", "considered", "placed"))


def test_a_move_in_a_fleet_of_many_hosts_is_decided():
    """A conductor names each host that the guest cannot reach, such as all hosts on other storage."""
    elsewhere = [f"compute-{number:05}.example.org" for number in range(99_999)]
    scheduler = Scheduler(node("compute-00000.example.org"), node("here"))
    asked = request()
    asked.filter_properties["ignore_hosts"] = elsewhere
    assert ["here"] == [each["host"] for each in scheduler.select(asked)]
    explained = scheduler.manager.explain(
        new_context(), request_spec=asked.request_spec, filter_properties=dict(asked.filter_properties)
    )
    assert ["here"] == [each["host"] for each in explained["picks"]]


def test_no_valid_host_is_expected_and_says_why(caplog):
    """It leaves no traceback; the refusal has the counts, and the log one line."""
    scheduler = Scheduler(node("a"), node("b"), scheduler_default_filters=["RetryFilter", "RamFilter"])
    with caplog.at_level(logging.INFO):
        refusal = scheduler.refused(request({"memory_mb": 10**6}))
    assert isinstance(refusal, errors.NoValidHost)
    assert [
        {"name": "RetryFilter", "start": 2, "end": 2},
        {"name": "RamFilter", "start": 2, "end": 0},
    ] == refusal.details["filters"]
    (line,) = [record for record in caplog.records if record.name == "scheduler.why.decision_log"]
    assert line.exc_info is None
    assert "RetryFilter: (start: 2, end: 2), RamFilter: (start: 2, end: 0)" in line.getMessage()


def test_a_users_filter_as_it_stands(caplog):
    """The hint chooses the host; an impossible one leaves the filter's name in the log."""
    with caplog.at_level(logging.INFO):
        scheduler = Scheduler(
            node("a"),
            node("b"),
            scheduler_available_filters=[
                "scheduler.filters.all_filters",
                "tests.unit.scheduler.plugins.SpecifiedHostFilter",
            ],
            scheduler_default_filters=["RamFilter", "SpecifiedHostFilter"],
        )
        (placed,) = scheduler.select(request(scheduler_hints={"requested_host": "b"}))
        scheduler.refused(request(scheduler_hints={"requested_host": "nowhere"}))
    assert "b" == placed["host"]
    lines = [record.getMessage() for record in caplog.records]
    assert "SpecifiedHostFilter is initialized!" in lines
    assert "Filter SpecifiedHostFilter returned 0 hosts" in lines


@pytest.mark.parametrize(
    ("chosen", "order"),
    [
        (["RetryFilter", "RamFilter"], ["prepared", "read"]),
        (["RamFilter", "SpecifiedHostFilter"], ["read", "prepared"]),  # a user's may be slow
    ],
)
def test_a_request_is_looked_into_while_the_database_answers(
    chosen: list[str], order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request is prepared before the database answers, unless a plugin may be slow: other requests would wait for it."""
    available = ["scheduler.filters.all_filters", "tests.unit.scheduler.plugins.SpecifiedHostFilter"]
    scheduler = Scheduler(node("a"), scheduler_available_filters=available, scheduler_default_filters=chosen)
    seen: list[str] = []
    read = scheduler.feed.read
    monkeypatch.setattr(scheduler.feed, "read", lambda since: seen.append("read") or read(since))
    monkeypatch.setattr(decider, "prepare", lambda *about: seen.append("prepared") or pipeline.prepare(*about))
    assert ["a"] == [each["host"] for each in scheduler.select(request())]
    assert order == seen


@pytest.mark.parametrize(("late_s", "zone", "booked"), [(-1, "Z", 1), (0, "Z", 1), (1, "Z", 0), (1, "", 0)])
def test_a_request_that_nobody_waits_for_books_nothing(late_s: float, zone: str, booked: int):
    """It was in a queue for too long: its caller has retried, or the instance runs elsewhere."""
    scheduler = Scheduler(node("a"))
    begin_by = {"begin_by": (scheduler.clock() - seconds(late_s)).isoformat() + zone}
    if booked:
        scheduler.select(request(), **begin_by)
    else:
        assert isinstance(scheduler.refused(request(), **begin_by), errors.RequestExpired)
    assert booked == scheduler.host_manager.counts()["bookings"]


def test_a_time_that_utc_does_not_have_is_refused():
    """By name, and without a traceback in the log."""
    refusal = Scheduler(node("a")).refused(request(), begin_by="0001-01-01T00:00:00+14:00")
    assert (errors.InvalidInput, "request_spec.begin_by") == (type(refusal), refusal.field)


def test_a_malformed_request_is_answered():
    """A typed error names the field."""
    scheduler = Scheduler(node())
    refusal = scheduler.refused(request(), num_instances=10**9)
    assert (errors.InvalidInput, "request_spec.num_instances") == (type(refusal), refusal.field)


@pytest.mark.parametrize(("sizes", "events"), [({}, ["start", "end"]), ({"memory_mb": 10**6}, ["start"])])
def test_notifications(sizes, events):
    """A request is announced; its end only if it was placed."""
    scheduler = Scheduler(node())
    asked = request(sizes)
    if len(events) == 2:
        scheduler.select(asked)
    else:
        scheduler.refused(asked)
    sent = [event for event, _payload in scheduler.notifier.sent]
    assert [f"scheduler.select_destinations.{event}" for event in events] == sent
    assert {"request_spec": asked.request_spec} == scheduler.notifier.sent[0][1]


def test_one_line_a_decision(caplog):
    """An operator reads one line at info for each decision."""
    scheduler = Scheduler(node(), scheduler_default_filters=["RamFilter"])
    with caplog.at_level(logging.INFO):
        scheduler.select(request())
    (line,) = caplog.records
    assert "Placed 1 instance(s), first 00000000-0000-0000-0000-000000001000, on host1" in line.getMessage()
    assert "(1 hosts, RamFilter 1)" in line.getMessage()


def test_instances_without_names_are_booked():
    """A caller that sends no uuids for its instances gets as many hosts, and they are counted."""
    scheduler = Scheduler(node("a", memory_mb=2048), node("b", memory_mb=2048))
    asked = request({"memory_mb": 2048}, count=2)
    assert {"a", "b"} == {each["host"] for each in scheduler.select(asked, instance_uuids=None)}
    assert 2 == scheduler.host_manager.counts()["bookings"]


ZONE = {"id": 7, "name": "racks", "hosts": ["b"], "metadata": {"availability_zone": "east"}}
IN_ZONE = {"scheduler_default_filters": ["AvailabilityZoneFilter", "DifferentHostFilter"]}
UUID = factories.uuid(77)


def zone_of(scheduler, zone="east"):
    """The host that a request for the zone is given, if any."""
    asked = request(instance={"availability_zone": zone})
    try:
        return scheduler.select(asked)[0]["host"]
    except dispatcher.ExpectedException:
        return None


def cast(scheduler, method, **arguments):
    getattr(scheduler.manager, method)(new_context(), **arguments)


def test_aggregates_are_replaced_by_their_casts():
    """A cast about an aggregate counts at once, with hosts that have left it."""
    scheduler = Scheduler(node("a"), node("b"), **IN_ZONE)
    assert None is zone_of(scheduler)
    cast(scheduler, "update_aggregates", aggregates=[ZONE])
    assert "b" == zone_of(scheduler)
    cast(scheduler, "update_aggregates", aggregates={**ZONE, "hosts": ["a"]})
    assert "a" == zone_of(scheduler)
    cast(scheduler, "delete_aggregate", aggregate={"id": 7})
    assert None is zone_of(scheduler)


def test_a_late_cast_does_not_undo_what_the_feed_has_shown():
    """A cast that names its generation is older than a state of that generation."""
    scheduler = Scheduler(node("a"), node("b"), **IN_ZONE)
    cast(scheduler, "update_aggregates", aggregates=[{**ZONE, "generation": 1}])
    assert None is zone_of(scheduler)
    cast(scheduler, "update_aggregates", aggregates=[{**ZONE, "generation": 2}])
    assert "b" == zone_of(scheduler)


def test_the_feed_repairs_what_casts_got_wrong():
    """A later change of the feed, and a full comparison, win over a cast."""
    scheduler = Scheduler(node("a"), node("b"), **IN_ZONE)
    cast(scheduler, "update_aggregates", aggregates=[ZONE, {**ZONE, "id": 8, "metadata": {"availability_zone": "w"}}])
    scheduler.feed.batches.append(
        changes(generation=2, aggregates=[factories.aggregate(["a"], 7, availability_zone="east")])
    )
    assert ("a", "b") == (zone_of(scheduler), zone_of(scheduler, "w"))
    everything = changes([node("a"), node("b")], generation=3, full=True)
    scheduler.host_manager._audit_feed.batches.append(everything)
    scheduler.host_manager.compare()
    assert (None, None) == (zone_of(scheduler), zone_of(scheduler, "w"))


def test_instance_info_counts_at_once():
    """Arrivals and departures that a host reports count for the next request."""
    scheduler = Scheduler(node("a"), node("b", memory_mb=8192), **IN_ZONE)
    apart = request(scheduler_hints={"different_host": [UUID]})
    assert "a" == scheduler.select(apart)[0]["host"]
    cast(scheduler, "update_instance_info", host_name="a", instance_info=[{"uuid": UUID}])
    assert "b" == scheduler.select(apart)[0]["host"]
    cast(scheduler, "sync_instance_info", host_name="a", instance_uuids=[UUID])
    cast(scheduler, "delete_instance_info", host_name="b", instance_uuid=UUID)
    assert "b" == scheduler.select(apart)[0]["host"]
    cast(scheduler, "delete_instance_info", host_name="a", instance_uuid=UUID)
    assert "a" == scheduler.select(apart)[0]["host"]


def test_instances_of_several_hosts_are_told_together():
    """Each says where it is."""
    scheduler = Scheduler(node("a"), node("b", memory_mb=8192), node("c", memory_mb=4096), **IN_ZONE)
    scheduler.driver.refresh()
    other = factories.uuid(78)
    said = [{"uuid": UUID, "host": "a"}, {"uuid": other, "host": "b"}]
    cast(scheduler, "update_instance_info", instance_info=said)
    assert "c" == scheduler.select(request(scheduler_hints={"different_host": [UUID, other]}))[0]["host"]


def test_a_cast_that_does_not_say_how_new_it_is():
    """Of an aggregate that the feed has told of, the feed knows better once it has been read after the cast came."""
    scheduler = Scheduler(node("a"), node("b"), **IN_ZONE)
    newest = factories.aggregate(["a"], 7, availability_zone="east")
    scheduler.feed.batches.append(changes(generation=2, aggregates=[newest]))
    scheduler.driver.refresh()
    cast(scheduler, "update_aggregates", aggregates=[ZONE])
    assert "a" == zone_of(scheduler)
    cast(scheduler, "delete_aggregate", aggregate=7)
    assert "a" == zone_of(scheduler)


def test_such_a_cast_counts_while_the_feed_cannot_be_read():
    """There is no other information then."""
    scheduler = Scheduler(node("a"), node("b"), scheduler_driver="caching_scheduler", **IN_ZONE)
    known = factories.aggregate(["a"], 7, availability_zone="east")
    scheduler.feed.batches.append(changes(generation=2, aggregates=[known]))
    for _again in range(2):
        scheduler.driver.run_periodic_tasks()
    cast(scheduler, "update_aggregates", aggregates=[ZONE])
    assert "b" == zone_of(scheduler)


def disagreeing():
    """The scheduler believes that an instance is on host a, where the database has another, and less memory."""
    scheduler = Scheduler(node("a"), node("b", memory_mb=8192), **IN_ZONE)
    scheduler.driver.refresh()
    cast(scheduler, "update_instance_info", host_name="a", instance_info=[{"uuid": UUID}])
    there = [PlacedInstance(factories.uuid(78), "a", "a")]
    smaller = changes([node("a", memory_mb=4096)], generation=1, instances=there)
    scheduler.host_manager._audit_feed.hosts["a"] = smaller
    return scheduler


def test_a_host_that_disagrees_is_compared(caplog):
    """A sync that differs gives one log line, and the scheduler reads the host from the database."""
    scheduler = disagreeing()
    with caplog.at_level(logging.INFO):
        cast(scheduler, "sync_instance_info", host_name="a", instance_uuids=[factories.uuid(78)])
    lines = [record.getMessage() for record in caplog.records]
    assert "Host a reports 1 instances, and 1 are known; they are compared" in lines
    assert "Compared host a with the database: 1 instances" in lines
    cache = scheduler.host_manager._cache
    assert {factories.uuid(78)} == cache.confirmed_on("a")
    assert [4096.0, 8192.0] == cache.candidates(0).column("total_usable_ram_mb").tolist()


def test_nodes_that_a_host_has_no_more_are_dropped():
    """As in a full comparison."""
    scheduler = disagreeing()
    scheduler.host_manager._audit_feed.hosts["a"] = changes([], generation=1, services=[])
    cast(scheduler, "sync_instance_info", host_name="a", instance_uuids=[])
    assert 1 == scheduler.host_manager.counts()["nodes"]


def test_a_host_that_agrees_is_not_compared():
    """Nothing is read but the feed."""
    scheduler = disagreeing()
    scheduler.host_manager._audit_feed.hosts.clear()
    cast(scheduler, "sync_instance_info", host_name="a", instance_uuids=[UUID])
    assert {UUID} == scheduler.host_manager._cache.confirmed_on("a")


def test_a_host_is_compared_so_often_at_most():
    """A wrong sender cannot cause more comparisons."""
    scheduler = disagreeing()
    compared = []
    scheduler.host_manager._audit_feed.read_host = lambda host: compared.append(host) or changes(generation=1)
    for _again in range(3):
        cast(scheduler, "sync_instance_info", host_name="a", instance_uuids=[factories.uuid(99)])
    assert ["a"] == compared


def test_a_comparison_that_fails_is_one_line(caplog):
    """For example, the database does not answer. Each host asks again; the line comes once a minute."""
    scheduler = disagreeing()
    scheduler.host_manager._audit_feed.hosts.clear()
    for _twice in range(2):
        cast(scheduler, "sync_instance_info", host_name="a", instance_uuids=[])
    lines = [each for each in (r.getMessage() for r in caplog.records) if "cannot be compared" in each]
    line = "Host a cannot be compared with the database now: KeyError (0 more such lines were left out)"
    assert [line] == lines


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("update_aggregates", {"aggregates": [{"name": "without id"}]}),
        ("update_aggregates", {"aggregates": 5}),
        ("delete_aggregate", {"aggregate": {}}),
        ("update_instance_info", {"host_name": "a", "instance_info": None}),
        ("update_instance_info", {"instance_info": [{"uuid": UUID}]}),
        ("update_instance_info", {"instance_info": {"uuid": UUID, "host": "a"}}),
        ("update_instance_info", {"instance_info": {"objects": [{"uuid": UUID, "host": "a"}]}}),
        ("delete_instance_info", {"host_name": "a", "instance_uuid": "x"}),
        ("sync_instance_info", {"host_name": None, "instance_uuids": []}),
    ],
)
def test_a_cast_that_makes_no_sense_is_a_hint_all_the_same(method, arguments, caplog):
    """The scheduler logs it and reads the database."""
    scheduler = Scheduler(node())
    cast(scheduler, method, **arguments)
    assert ([0], 1) == (scheduler.feed.reads, scheduler.host_manager.counts()["nodes"])
    assert any("A cast is not understood" in record.getMessage() for record in caplog.records)


def explained(scheduler, asked, **options):
    return scheduler.manager.explain(
        new_context(), request_spec=asked.request_spec, filter_properties=dict(asked.filter_properties), **options
    )


KEYS = {
    "summary", "reason_code", "reason", "requested", "considered", "placed", "filters", "dropped", "silent", "nearest",
    "picks", "scores", "remarks", "state", "share",
}  # fmt: skip


def test_explain_says_what_would_be_decided():
    """The same hosts in the same order as the decision itself, with the way to their weights; nothing is booked."""
    scheduler = Scheduler(node("a"), *(node(name, memory_mb=8192) for name in "bc"), scheduler_max_attempts=2)
    answer = explained(scheduler, request(count=2), best=2)
    assert KEYS == set(answer)
    assert 0 == scheduler.host_manager.counts()["bookings"]
    placed = scheduler.select(request(count=2))
    assert [each["host"] for each in placed] == [pick["host"] for pick in answer["picks"]]
    best, second = answer["scores"]
    assert ("a", 3.0) == (best["host"], best["weight"])
    ram = next(row for row in second["weighers"] if row["name"] == "RAMWeigher")
    assert {"name": "RAMWeigher", "raw": 8192.0, "normalised": 0.5, "multiplier": 1.0, "contribution": 0.5} == ram
    assert second["weight"] == sum(row["contribution"] for row in second["weighers"])
    assert (None, "", {"generation": 1, "age_s": 0.0, "stale": False}) == tuple(
        answer[key] for key in ("reason_code", "reason", "state")
    )


def test_explain_says_why_not():
    """A refusal has the same keys, filled with its reasons, and is no error."""
    answer = explained(Scheduler(node("a"), node("b")), request({"memory_mb": 10**6}))
    assert KEYS == set(answer)
    assert ("NEVER_FITS", 2, [], []) == tuple(answer[key] for key in ("reason_code", "considered", "picks", "scores"))
    assert {"RamFilter": 2} == answer["dropped"]
    assert answer["nearest"][0]["text"].startswith("a lacks 983616 MB of RAM")


def test_capacity():
    """Counted over the same filters, with the age of the state."""
    scheduler = Scheduler(node("a"), node("b", memory_mb=2048))
    asked = request({"memory_mb": 2048})
    answer = scheduler.manager.capacity(new_context(), request_spec=asked.request_spec, group_by="zone")
    assert (9, "RAM", ["nova"]) == (
        answer["fits"],
        answer["binds_first"],
        [each["name"] for each in answer["groups"]],
    )
    assert 1 == answer["state"]["generation"]


class Counting(filters.BaseHostFilter):
    """Counts its calls."""

    asked = 0

    def host_passes(self, host_state, filter_properties):
        type(self).asked += 1
        return True


def test_one_decision_for_one_answer():
    """The picks and the score table come from one decision: each filter judges each host once."""
    Counting.asked = 0
    scheduler = Scheduler(
        node("a"),
        node("b"),
        scheduler_available_filters=[f"{__name__}.Counting"],
        scheduler_default_filters=["Counting"],
    )
    answer = explained(scheduler, request(), best=2)
    assert (2, 2) == (Counting.asked, len(answer["scores"]))


def test_the_scores_are_the_first_instances():
    """Also when another finds no host."""
    answer = explained(Scheduler(node("a"), node("b", memory_mb=8192)), request({"memory_mb": 9000}, count=2))
    assert ("CAPACITY", ["a"]) == (answer["reason_code"], [each["host"] for each in answer["scores"]])


FULL = {"memory_mb": 2048, "memory_mb_used": 2048, "vcpus_used": 2, "running_vms": 1}
CELLS = builders.host(builders.host_cell(pinned=[0, 1, 2, 3], cpu_usage=4, memory_usage=2048)).to_wire()
MINE = builders.instance(builders.pinned(cpu_pinning={0: 2, 1: 3})).to_wire()
DEVICES = [{"address": "0000:00:00.1", "vendor_id": "8086"}]
POOLS = {"pci_stats": [], "pci_device_pools": [builders.pool().to_wire()]}
CLAIMED = {"memory_mb": 2048, "disk_gb": 0, "vcpus": 2}
ASKING = {
    "numa_topology": builders.instance(builders.pinned()).to_wire(),
    "pci_requests": [builders.devices().to_wire()],
}
HARDWARE = ["NUMATopologyFilter", "PciPassthroughFilter"]
OWN = [
    ("memory", node(**FULL), request({"memory_mb": 2048}), CLAIMED, "RamFilter"),
    (
        "cells and devices",
        node(numa_topology=CELLS, **POOLS),
        request(instance=ASKING),
        {**CLAIMED, "numa_topology": MINE, "pci_devices": DEVICES},
        *HARDWARE,
    ),
]


@pytest.mark.parametrize(("name", "host", "asked", "claimed", "chosen"), [(*row[:4], row[4:]) for row in OWN])
def test_what_an_instance_has_is_given_back_for_its_explanation(name, host, asked, claimed, chosen):
    """explain counts the instance as absent; afterwards it counts again."""
    scheduler = Scheduler(host, scheduler_default_filters=["DifferentHostFilter", *chosen])
    (uuid,) = asked.instance_uuids
    there = PlacedInstance(uuid, "host1", "host1")
    scheduler.feed.batches.append(changes(generation=2, instances=[there]))
    scheduler.driver.refresh()
    spec = {
        **asked.request_spec,
        "holding": {"instance_uuid": uuid, "host": "host1", "node": "host1", "claimed": claimed},
    }
    with_it = RequestSpec.from_wire(spec, {"scheduler_hints": {"different_host": [uuid]}})
    for _again in range(2):
        assert (None, ["host1"]) == (
            explained(scheduler, with_it)["reason_code"],
            [pick["host"] for pick in explained(scheduler, with_it)["picks"]],
        ), name
        assert "CAPACITY" == explained(scheduler, asked)["reason_code"]


@pytest.mark.parametrize(("name", "host", "asked", "claimed", "chosen"), [(*row[:4], row[4:]) for row in OWN])
def test_what_an_instance_has_booked_is_given_back_too(name, host, asked, claimed, chosen):
    """A pick without a claim yet, which the caller cannot see."""
    empty = node(memory_mb=2048, vcpus=2, numa_topology=builders.host(builders.host_cell(cpus=range(2))).to_wire(),
                 pci_stats=[builders.pool().to_wire()])  # fmt: skip
    scheduler = Scheduler(empty, scheduler_default_filters=list(chosen))
    scheduler.select(asked)
    spec = {**asked.request_spec, "holding": {"instance_uuid": asked.instance_uuids[0]}}
    assert None is explained(scheduler, RequestSpec.from_wire(spec, {}))["reason_code"], name
    assert "CAPACITY" == explained(scheduler, asked)["reason_code"], name
    assert 1 == scheduler.host_manager.counts()["bookings"]


def test_a_holding_that_makes_no_sense():
    """The field is named."""
    spec = {**request().request_spec, "holding": {"instance_uuid": factories.uuid(1), "claimed": {"memory_mb": -1}}}
    with pytest.raises(dispatcher.ExpectedException) as refused:
        Scheduler(node()).manager.explain(new_context(), request_spec=spec)
    assert "request_spec.holding.claimed.memory_mb" == refused.value.exc_info[1].field


def test_a_driver_that_cannot_explain_says_so():
    """Chance has no reasons."""
    with pytest.raises(dispatcher.ExpectedException) as refused:
        explained(Scheduler(node(), scheduler_driver="chance_scheduler"), request())
    assert "explain is not supported by ChanceScheduler." == refused.value.exc_info[1].message


def test_config_options_reach_the_plugins(tmp_path):
    """The JSON file's content is in what filters in nova's form are given."""
    path = tmp_path / "options.json"
    path.write_text('{"only": "b"}')
    scheduler = Scheduler(
        node("a"),
        node("b"),
        scheduler_available_filters=["tests.unit.scheduler.plugins.ConfiguredHostFilter"],
        scheduler_default_filters=["ConfiguredHostFilter"],
        scheduler_json_config_location=str(path),
    )
    assert "b" == scheduler.select(request())[0]["host"]


@pytest.mark.parametrize(("policy", "expected"), [("fail", errors.PluginFailed), ("skip", None)])
def test_the_error_policy_is_configured(policy, expected, caplog):
    """A filter that raises costs its request, or only itself; other requests are not affected."""
    scheduler = Scheduler(
        node("a"),
        scheduler_available_filters=["tests.unit.scheduler.plugins.RaisingFilter"],
        scheduler_default_filters=["RaisingFilter"],
        scheduler_filter_error_policy=policy,
    )
    bad = request(scheduler_hints={"raise": True})
    with caplog.at_level(logging.INFO):
        if expected:
            assert isinstance(scheduler.refused(bad), expected)
            (line,) = [each.getMessage() for each in caplog.records if each.name == "scheduler.why.decision_log"]
            assert "MISCONFIGURED: Filter RaisingFilter failed: raised LookupError: asked for" in line
        else:
            decided = scheduler.select(bad)[0]["decision"]
            (remark,) = decided["remarks"]
            assert remark.startswith(
                "Filter RaisingFilter was skipped: it raised LookupError: asked for at plugins.py:"
            )
    assert "a" == scheduler.select(request())[0]["host"]


def test_caching_scheduler_refreshes_by_period_only():
    """Picks accumulate; room that is given back shows after the periodic task."""
    scheduler = Scheduler(node(memory_mb=2048), scheduler_driver="caching_scheduler")
    scheduler.select(request({"memory_mb": 2048}))
    other = {"instance_uuids": [factories.uuid(7)]}
    back = PlacedInstance(factories.uuid(1000), None, vm_state="error")
    scheduler.feed.batches.append(changes(generation=2, instances=[back]))
    scheduler.refused(request({"memory_mb": 2048}), **other)
    assert [0] == scheduler.feed.reads
    scheduler.driver.run_periodic_tasks()
    assert "host1" == scheduler.select(request({"memory_mb": 2048}), **other)[0]["host"]


def test_chance_scheduler_takes_any_host_that_is_up():
    """No filters, no weighers, no node and no limits; only hosts that the request names count."""
    scheduler = Scheduler(node("a", memory_mb=64), node("b"), scheduler_driver="chance_scheduler")
    chosen = scheduler.select(request(count=20, ignore_hosts=["b"], force_hosts=["b"]))
    assert {("a", None, None)} == {(each["host"], each["nodename"], each["limits"]) for each in chosen}
    assert {"a", "b"} == {each["host"] for each in scheduler.select(request(count=100))}
    assert {"b"} == {each["host"] for each in scheduler.select(request(count=20, requested_destination={"host": "B"}))}
    assert {"b"} == {each["host"] for each in scheduler.select(request(count=20, within_hosts=["B"]))}
    assert [] == scheduler.notifier.sent


NOBODY = [
    ("all are ignored, whatever the case", [node("a"), node("B")], ["A", "b"], "POLICY", 2),
    ("none is up", [], [], "HOSTS_DOWN", 0),
]


@pytest.mark.parametrize(("name", "nodes", "ignored", "code", "considered"), NOBODY)
def test_chance_scheduler_refuses_as_others_do(name, nodes, ignored, code, considered):
    """Its refusal has the same keys, and the age of its host states."""
    scheduler = Scheduler(*nodes, scheduler_driver="chance_scheduler")
    refusal = scheduler.refused(request(ignore_hosts=ignored))
    assert isinstance(refusal, errors.NoValidHost)
    state = {"generation": 1, "age_s": 0.0, "stale": False}
    expected = {"requested": 1, "considered": considered, "placed": 0, "filters": [], "state": state,
                "reason_code": code, "dropped": {}, "silent": 0, "nearest": []}  # fmt: skip
    assert expected == refusal.details, name


def test_chance_scheduler_tells_of_its_state():
    """As every decision does."""
    (chosen,) = Scheduler(node("a"), scheduler_driver="chance_scheduler").select(request())
    assert {"generation": 1, "age_s": 0.0, "stale": False} == chosen["decision"]["state"]
    assert (1, 1) == (chosen["decision"]["placed"], chosen["decision"]["considered"])


def test_a_decision_names_the_flavor_mix(caplog):
    """With its version the decision can be repeated; explain shows what the weigher of fragmentation counted."""
    caplog.set_level(logging.INFO)
    scheduler = Scheduler(node("a"), node("b", vcpus=7), fragmentation_weight_multiplier=1.0)
    mix = FlavorMix(17, counts={Shape(4, 1024): Counts(1.0)})
    scheduler.feed.batches[0] = dataclasses.replace(scheduler.feed.batches[0], mix=mix)
    answer = explained(scheduler, request())
    assert 17 == answer["state"]["mix"]
    (terms,) = [line["terms"] for line in answer["scores"][-1]["weighers"] if line["name"] == "FragmentationWeigher"]
    assert [("4 vcpus, 1024 MB", 2, 1)] == [(term["shape"], term["before"], term["after"]) for term in terms]
    assert ["b"] == [each["host"] for each in scheduler.select(request())]
    assert any("Placed" in line and "mix 17" in line for line in caplog.messages)
