# SPDX-License-Identifier: Apache-2.0
"""Volumes through a real conductor and a real scheduler, which meet in the database."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from oslo_messaging.rpc import dispatcher

from conductor_stub.steps.attempt import Attempt, Failure
from fleet import errors
from fleet.context import RequestContext
from fleet.db.engine.database import Database
from fleet.db.feed import feed_queries
from fleet.db.feed.feed import ChangeFeed
from fleet.db.volumes import pools
from fleet.objects import Selection, VolumeType
from scheduler.volumes import service
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.volumes.drivers.driver import Scheduler
from scheduler.volumes.drivers.filter_scheduler import FilterScheduler
from scheduler.volumes.manager import VolumeSchedulerManager
from tests.configuration import of_scheduler
from tests.worlds.conductor import Conductor, context

A, B = ("m1@fast", "p1"), ("m2@slow", "p2")
UUID = "00000000-0000-0000-0000-000000000009"
TYPES = {"fast": VolumeType("fast", {"volume_backend_name": "fast"}), "any": VolumeType("any")}


class Direct:
    """The scheduler's endpoint, called without a broker; expected errors are raised as they are."""

    def __init__(self, manager: VolumeSchedulerManager) -> None:
        self._manager = manager

    def __getattr__(self, name: str) -> Any:
        def called(asked_by: Any, *positional: Any, **arguments: Any) -> Any:
            arguments.update(zip(("request_spec", "filter_properties"), positional, strict=False))
            try:
                return getattr(self._manager, name)(asked_by, **arguments)
            except dispatcher.ExpectedException as expected:
                raise expected.exc_info[1] from None

        return called


class Volumes(Conductor):
    """A conductor with two backends of 100 GiB, one pool each, and a scheduler of its own."""

    def __init__(self, database: Database, **options: Any) -> None:
        super().__init__(database)
        for host, pool in (A, B):
            self.add_backend(host, pool)
        conf = of_scheduler()
        service.volume_conf.register_opts(conf)
        for name, value in options.items():
            conf.set_override(name, value, "volume")
        made = [ChangeFeed(database, self.clock, of=feed_queries.STORAGE) for _feed in range(2)]
        self.driver: Scheduler = service.build_driver(conf, *made, self.clock)
        instances = {UUID: "m2"}
        self.calls = Direct(VolumeSchedulerManager(self.driver, instances.get, TYPES.__getitem__, self.clock))
        placement = self.volume_placement
        placement._kind = dataclasses.replace(placement._kind, select=self.calls.select_backend)

    def make(self, size: int, **request: Any) -> dict[str, Any]:
        (made,) = self.operator.create_volumes({"size": size, **request})["volumes"]
        self.volumes.deliver(self.volume_placement.place)
        return self.operator.show_volume(made["uuid"])

    def spec(self, size: int = 1, **more: Any) -> dict[str, Any]:
        names = ("volume_id", "volume_type", "resource_backend", "operation", "migration_policy")
        properties = {name: value for name, value in more.items() if name not in names}
        return {
            "volume_properties": {"size": size, **properties},
            **{name: value for name, value in more.items() if name in names},
        }

    def select(self, method: str = "select_backend", **arguments: Any) -> str:
        (answer,) = getattr(self.calls, method)(context(), **arguments)
        return f"{answer['host']}#{answer['nodename']}"


@pytest.fixture
def volumes(database: Database) -> Volumes:
    return Volumes(database)


def test_volumes_spread_over_the_space_that_is_left(volumes: Volumes) -> None:
    """Each volume goes to the emptier pool; claims and bookings count, each once."""
    hosts = [volumes.make(size)["host"] for size in (60, 30, 30, 35)]
    assert ["m1@fast#p1", "m2@slow#p2", "m2@slow#p2", "m1@fast#p1"] == hosts
    assert [60 + 35, 30 + 30] == [row.allocated_capacity_gb for row in volumes.database.read(pools.list_all)]
    volumes.driver.host_manager.refresh()
    counts = volumes.driver.host_manager.counts()
    assert {"pools": 2, "volumes": 4, "volume_bookings": 0} == counts


def several(volumes: Volumes, count: int, size: int = 20) -> list[str]:
    """The pools for ``count`` volumes of one request."""
    ids = [f"00000000-0000-0000-0000-0000000001{number:02}" for number in range(count)]
    answer = volumes.calls.select_backend(context(), {**volumes.spec(size), "volume_id": ids[0], "volume_ids": ids}, {})
    return [f"{each['host']}#{each['nodename']}" for each in answer]


@pytest.mark.parametrize("driver", ["filter_scheduler", "simple_scheduler"])
def test_several_volumes_of_one_request(database: Database, driver: str) -> None:
    """Each counts for those after it, and is booked."""
    volumes = Volumes(database, scheduler_driver=driver)
    assert ["m1@fast#p1"] * 4 + ["m2@slow#p2"] * 4 == sorted(several(volumes, 8))
    assert 8 == volumes.driver.host_manager.counts()["volume_bookings"]


def test_several_volumes_that_do_not_fit_together(volumes: Volumes) -> None:
    """Nothing is booked for any of them."""
    with pytest.raises(errors.NoValidHost, match="lacks"):
        several(volumes, 12)
    assert 0 == volumes.driver.host_manager.counts()["volume_bookings"]


def test_a_driver_of_ones_own_for_one_volume_decides_on_several(database: Database) -> None:
    """It is asked for each of them."""
    volumes = Volumes(database, scheduler_driver=f"{__name__}.Always")
    assert ["m2@slow#p2"] * 3 == several(volumes, 3)


class Always(FilterScheduler):
    """Wants one backend for all volumes."""

    def select_backend(self, context: RequestContext, request: VolumeRequest) -> Selection:
        return super().select_backend(context, dataclasses.replace(request, backend=B[0]))


def test_a_volume_that_fits_nowhere(volumes: Volumes) -> None:
    """The refusal has the numbers of the nearest pool, after the claims."""
    assert ["m1@fast#p1", "m2@slow#p2"] == [volumes.make(60)["host"], volumes.make(50)["host"]]
    with pytest.raises(errors.NoValidHost) as refusal:
        volumes.select(request_spec=volumes.spec(70))
    assert "CAPACITY" == refusal.value.details["reason_code"]
    said = "pool m2@slow#p2 lacks 20 GiB: free 50 of 100, reserved 0 %, over-subscription 1.0"
    assert said in refusal.value.message


def test_a_failed_attempt_goes_to_the_other_pool(volumes: Volumes) -> None:
    """The pool that failed is not chosen again, although it has more space."""
    volumes.add_backend(B[0], B[1], total_capacity_gb=50, free_capacity_gb=50)
    made = volumes.make(5)
    assert "m1@fast#p1" == made["host"]
    here = Attempt(made["uuid"], 1, A[0])
    volumes.volume_progress.fail(context(), here, "creating", Failure("creating", "OSError", "the disk is full"))
    volumes.volumes.deliver(volumes.volume_placement.place)
    assert "m2@slow#p2" == volumes.operator.show_volume(made["uuid"])["host"]


def test_what_a_pool_no_longer_reports_is_no_candidate(volumes: Volumes) -> None:
    """The scheduler follows the reports of agents, and their services."""
    volumes.select(request_spec=volumes.spec(1))
    volumes.add_backend(A[0], "p7")
    found = {pool["name"] for pool in volumes.calls.get_pools(context())}
    assert {"m1@fast#p7", "m2@slow#p2"} == found
    volumes.clock.advance(1000)
    with pytest.raises(errors.NoValidHost) as refusal:
        volumes.select(request_spec=volumes.spec(1))
    assert "HOSTS_DOWN" == refusal.value.details["reason_code"]


def test_a_pool_larger_than_any_storage_stops_no_decision(volumes: Volumes) -> None:
    """Its report is refused. A part of such a capacity, in per cent, is no number any more."""
    huge = {"total_capacity_gb": 1e307, "free_capacity_gb": 1e307, "reserved_percentage": 20}
    (answer,) = volumes.volume_progress.report([{"host": A[0], "pool": "huge", "capabilities": huge}], {})
    assert not answer["accepted"]
    assert volumes.select(request_spec=volumes.spec(1)) in ("m1@fast#p1", "m2@slow#p2")


@pytest.mark.parametrize(
    ("method", "arguments", "expected"),
    [
        ("create_volume", {"volume": {"id": UUID, "size": 5}, "snapshot_id": UUID}, {A, B}),
        ("migrate_volume_to_host", {"host": "m2@slow", "volume": {"id": UUID, "size": 5}}, {B}),
        ("migrate_volume_to_host", {"host": "m2@slow#p2", "volume": {"id": UUID, "size": 5}}, {B}),
        ("extend_volume", {"new_size": 50, "volume": {"id": UUID, "size": 5, "host": "m1@fast#p1"}}, {A}),
        ("manage_existing", {"volume": {"id": UUID, "size": 5, "host": "m2@slow#p2"}}, {B}),
        (
            "retype",
            {"volume": {"id": UUID, "size": 5, "host": "m2@slow#p2", "volume_type": {"name": "any"}}},
            {B},
        ),
    ],
)
def test_cinders_shapes(volumes: Volumes, method: str, arguments: dict[str, Any], expected: set[Any]) -> None:
    """Each method returns the pool."""
    assert volumes.select(method, **arguments) in {"#".join(each) for each in expected}


def test_retype_needs_leave_to_move(volumes: Volumes) -> None:
    """With another type that its pool does not have, a volume moves only on demand."""
    properties = {"size": 5, "host": "m2@slow#p2"}
    type_ = {"name": "other", "extra_specs": {"volume_backend_name": "fast"}}
    for host, pool in (A, B):
        volumes.add_backend(host, pool, volume_backend_name=host.partition("@")[2])
    spec = {"volume_id": UUID, "volume_properties": properties, "volume_type": type_}
    with pytest.raises(errors.NoValidHost, match="does not allow a move"):
        volumes.select("retype", request_spec=spec)
    assert "m1@fast#p1" == volumes.select("retype", request_spec={**spec, "migration_policy": "on-demand"})
    with pytest.raises(errors.InvalidInput, match="volume_type"):
        volumes.select("retype", request_spec={**spec, "volume_type": None})


def test_space_is_validated_and_booked(volumes: Volumes) -> None:
    """Two requests of 60 GiB do not both get the 100 of a pool."""
    asked = {"backend": "m1@fast", "request_spec": volumes.spec(60)}
    assert [True, False] == [volumes.calls.validate_host_capacity(context(), **asked) for _again in range(2)]


def test_pools_by_name_type_and_capability(volumes: Volumes) -> None:
    """The filters of get_pools; a value may come as text."""
    for host, pool in (A, B):
        volumes.add_backend(host, pool, volume_backend_name=host.partition("@")[2], ssd=host == A[0])

    def names(**filters: Any) -> list[str]:
        return [pool["name"] for pool in volumes.calls.get_pools(context(), filters=filters)]

    assert ["m1@fast#p1"] == names(name="m1@fast#p1")
    assert ["m1@fast#p1"] == names(volume_type="fast")
    assert ["m1@fast#p1"] == names(ssd="true")
    assert ["m2@slow#p2"] == names(volume_backend_name="slow")
    assert 2 == len(names(volume_type="any"))


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("request_spec.volume_properties.size", {"request_spec": {"volume_properties": {}}}),
        ("request_spec.volume_properties.size", {"request_spec": {"volume_properties": {"size": "big"}}}),
        ("request_spec.volume_id", {"request_spec": {"volume_id": 5, "volume_properties": {"size": 1}}}),
        ("request_spec", {"request_spec": None}),
        ("request_spec", {}),
        (
            "filter_properties.retry.num_attempts",
            {"request_spec": {"volume_properties": {"size": 1}}, "filter_properties": {"retry": {"num_attempts": -1}}},
        ),
        (
            "filter_properties.scheduler_hints.local_to_instance",
            {
                "request_spec": {"volume_properties": {"size": 1}},
                "filter_properties": {"scheduler_hints": {"local_to_instance": "x"}},
            },
        ),
    ],
)
def test_what_cannot_be_read_is_named(volumes: Volumes, field: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidInput) as refusal:
        volumes.select(**arguments)
    assert field == refusal.value.field


def test_the_machine_of_an_instance(database: Database) -> None:
    """The scheduler looks the instance up; a wrong uuid is refused."""
    volumes = Volumes(database, scheduler_default_filters=["InstanceLocalityFilter"])
    hints = {"scheduler_hints": {"local_to_instance": UUID}}
    assert "m2@slow#p2" == volumes.select(request_spec=volumes.spec(), filter_properties=hints)
    without_dashes = {"scheduler_hints": {"local_to_instance": UUID.replace("-", "").upper()}}
    assert "m2@slow#p2" == volumes.select(request_spec=volumes.spec(), filter_properties=without_dashes)
    wrong = {"scheduler_hints": {"local_to_instance": UUID.replace("9", "8")}}
    with pytest.raises(errors.InvalidInput, match="no instance"):
        volumes.select(request_spec=volumes.spec(), filter_properties=wrong)


@pytest.mark.parametrize("driver", ["chance_scheduler", "cinder.scheduler.chance.ChanceScheduler"])
def test_the_chance_driver(database: Database, driver: str) -> None:
    """Any backend that is up, but for those that the request ignores."""
    volumes = Volumes(database, scheduler_driver=driver)
    ignored = {"ignore_hosts": ["m1@fast"]}
    assert {"m2@slow#p2"} == {
        volumes.select(request_spec=volumes.spec(1000), filter_properties=ignored) for _again in range(5)
    }
    with pytest.raises(errors.NoValidHost, match="Could not find another host"):
        volumes.select(request_spec=volumes.spec(), filter_properties={"ignore_hosts": ["m1@fast", "m2@slow"]})


def test_the_simple_driver(database: Database) -> None:
    """The fewest gibibytes first, up to max_gigabytes; an administrator may name the backend."""
    volumes = Volumes(database, scheduler_driver="simple_scheduler", max_gigabytes=120)
    volumes.make(60)
    (other,) = {"m1@fast#p1", "m2@slow#p2"} - {volumes.operator.list_volumes({})[0]["host"]}
    assert other == volumes.select(request_spec=volumes.spec(50))
    with pytest.raises(errors.NoValidHost, match="Not enough allocatable"):
        volumes.select(request_spec=volumes.spec(100))
    forced = volumes.spec(500, availability_zone=":m2@slow")
    assert "m2@slow#p2" == volumes.select(request_spec=forced)
    volumes.clock.advance(1000)
    with pytest.raises(errors.NoValidHost, match="is not up"):
        volumes.select(request_spec=forced)


def test_explain_books_nothing(volumes: Volumes) -> None:
    """The answer has the scores of all pools, and the next request finds all the space."""
    answer = volumes.calls.explain(context(), request_spec=volumes.spec(60))
    assert 2 == len(answer["scores"])
    assert "1 volume(s) would go to m1@fast#p1; 2 pools were considered." == answer["summary"]
    assert 1 == len(answer["picks"])
    assert 0 == volumes.driver.host_manager.counts()["volume_bookings"]


def test_how_many_more_fit(volumes: Volumes) -> None:
    """Two pools of 100 GiB take 2 x 3 volumes of 30 GiB; one more is placed, and none is booked."""
    asked = {"request_spec": volumes.spec(30)}
    answer = volumes.calls.capacity(context(), **asked, group_by="zone")
    assert (6, "space") == (answer["fits"], answer["binds_first"])
    assert [("(none)", 6)] == [(group["name"], group["fits"]) for group in answer["groups"]]
    assert {"unit": "GiB", "asked": 30.0, "usable": 200.0, "stranded": 20.0} == answer["stranded"]["space"]
    volumes.make(45)
    assert 4 == volumes.calls.capacity(context(), **asked)["fits"]


def test_a_report_is_news(volumes: Volumes) -> None:
    """Cinder's casts make the scheduler read the database; other services' casts are not for it."""
    for name, expected in (("backup", 0), ("volume", 2)):
        volumes.calls.update_service_capabilities(context(), service_name=name, host=A[0], capabilities={})
        assert expected == volumes.driver.host_manager.counts()["pools"]
