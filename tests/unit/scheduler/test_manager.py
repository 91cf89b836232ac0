# SPDX-License-Identifier: Apache-2.0
"""The RPC surface over each driver: what is answered, logged and notified."""

from __future__ import annotations

import logging

import pytest
from oslo_messaging.rpc import dispatcher

from fleet import errors
from fleet.context import new_context
from scheduler import loading
from scheduler.host_manager import HostManager
from scheduler.manager import SchedulerManager
from tests import factories
from tests.clock import FakeClock
from tests.factories import PlacedInstance, changes, node, request
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
        self.host_manager = HostManager(self.feed, FakeFeed(), clock=FakeClock())
        self.driver = loading.load_driver_class(conf)(conf, self.host_manager, self.notifier)
        self.manager = SchedulerManager(self.driver)

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


def test_no_valid_host_is_expected_and_says_why(caplog):
    """No traceback; the refusal carries the counts, and one line tells the operator."""
    scheduler = Scheduler(node("a"), node("b"), scheduler_default_filters=["RetryFilter", "RamFilter"])
    with caplog.at_level(logging.INFO):
        refusal = scheduler.refused(request({"memory_mb": 10**6}))
    assert isinstance(refusal, errors.NoValidHost)
    assert [
        {"name": "RetryFilter", "start": 2, "end": 2},
        {"name": "RamFilter", "start": 2, "end": 0},
    ] == refusal.details["filters"]
    (line,) = [record for record in caplog.records if record.name == "scheduler.decision_log"]
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


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("update_aggregates", {"aggregates": []}),
        ("delete_aggregate", {"aggregate": {}}),
        ("update_instance_info", {"host_name": "a", "instance_info": None}),
        ("delete_instance_info", {"host_name": "a", "instance_uuid": "x"}),
        ("sync_instance_info", {"host_name": "a", "instance_uuids": []}),
    ],
)
def test_fanout_casts_are_hints(method, arguments):
    """Whatever such a message says, the cache asks the database."""
    scheduler = Scheduler(node())
    getattr(scheduler.manager, method)(new_context(), **arguments)
    assert ([0], 1) == (scheduler.feed.reads, scheduler.host_manager.counts()["nodes"])


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
    """No filters, no weighers, no node and no limits; only ignore_hosts is heeded."""
    scheduler = Scheduler(node("a", memory_mb=64), node("b"), scheduler_driver="chance_scheduler")
    chosen = scheduler.select(request(count=20, ignore_hosts=["b"], force_hosts=["b"]))
    assert {("a", None, None)} == {(each["host"], each["nodename"], each["limits"]) for each in chosen}
    assert {"a", "b"} == {each["host"] for each in scheduler.select(request(count=100))}
    assert [] == scheduler.notifier.sent
    assert isinstance(scheduler.refused(request(ignore_hosts=["a", "b"])), errors.NoValidHost)
    assert isinstance(Scheduler(scheduler_driver="chance_scheduler").refused(request()), errors.NoValidHost)
