# SPDX-License-Identifier: Apache-2.0
"""Which changes wake which builds, on every database: hosts of 8 vcpus, 8,000 MB and 100 GB, and a refusing scheduler."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent import futures
from typing import Any

import pytest

from conductor_stub.steps.limits import StepLimits
from fleet import errors
from fleet.db.engine.database import Database
from fleet.db.feed.feed import generation
from fleet.db.hosts.heartbeats import Heartbeat
from fleet.db.tables import models
from fleet.objects import BuildRequest
from fleet.telemetry import metrics
from tests.functional import databases
from tests.functional.test_networks import UUID, a_network
from tests.worlds.conductor import INCARNATION, Conductor, context

TWO_HOURS_S = 7200
ALL = ("RamFilter", "DiskFilter", "CoreFilter")


class Stage(Conductor):
    """A conductor whose scheduler refuses everything with the newest generation, as if no host had room."""

    def __init__(self, database: Database, limits: StepLimits | None = None) -> None:
        super().__init__(database, limits)
        self.add_host("h1")

    def refuse(self, code: str = "CAPACITY", filters: tuple[str, ...] = ALL, nearest: str = "h1") -> None:
        """The next answer of the scheduler."""
        lacks = {"resource": "vcpus", "unit": "", "lacks": 1.0, "never_fits": False}
        details = {
            "nearest": [{"host": nearest, "reason_code": "CAPACITY", "shortfalls": [lacks]}],
            "reason_code": code,
            "filters": [{"name": name, "start": 1, "end": 0} for name in filters],
            "state": {"generation": self.database.read(generation)},
        }
        self.scheduler.answers.append(errors.NoValidHost(reason="Full.", details=details))

    def queue(
        self,
        vcpus: int = 1,
        memory_mb: int = 1024,
        root_gb: int = 10,
        code: str = "CAPACITY",
        filters: tuple[str, ...] = ALL,
        project: str = "tenant",
        **request: Any,
    ) -> str:
        """One build that waits for room."""
        self.clock.advance(0.001)
        self.refuse(code, filters)
        flavor = {"vcpus": vcpus, "memory_mb": memory_mb, "root_gb": root_gb}
        wanted = BuildRequest.from_wire({"flavor": flavor, "wait_for_capacity_s": TWO_HOURS_S, **request})
        asked = context()
        asked.project_id = project
        accepted = self.intake.accept(asked, wanted)
        self.work()
        # A build that waits behind one of its shape asks for no decision.
        self.scheduler.answers.clear()
        return accepted["instances"][0]["uuid"]

    def fill(self, host: str = "h1", memory_mb: int = 8000, vcpus: int = 8, disk_gb: int = 100) -> None:
        """Leave the host no more than what is not taken here."""
        self.report(host, reserved_memory_mb=memory_mb, reserved_vcpus=vcpus, reserved_disk_gb=disk_gb)

    def report(self, host: str, **more: Any) -> None:
        ratios = {"cpu_allocation_ratio": 1.0, "ram_allocation_ratio": 1.0, "disk_allocation_ratio": 1.0}
        report = {"host": host, "node": host, "vcpus": 8, "memory_mb": 8000, "local_gb": 100, **ratios, **more}
        (answer,) = self.agents.report_hosts([report], {host: [host]})
        assert answer["accepted"], answer

    def settle(self) -> None:
        """Nothing is left to look at."""
        self.room_queue.look()
        assert [] == self.handed()

    def handed(self) -> list[str]:
        """The builds that were handed out."""
        uuids = [uuid for _context, those, _attempt in self.tasks.cast for uuid in those]
        self.tasks.cast.clear()
        return uuids

    def look(self) -> list[str]:
        self.room_queue.look()
        return self.handed()


@pytest.fixture
def stage(database: Database) -> Stage:
    return Stage(database)


def test_freed_room_wakes_a_build(stage: Stage) -> None:
    """Once: another look finds nothing new."""
    stage.fill()
    uuid = stage.queue()
    stage.settle()
    stage.report("h1")
    assert [uuid] == stage.look()
    assert [] == stage.look()
    assert ("building", "scheduling", 1, None) == stage.state(uuid)


LACKS = [
    ("disk for a build that lacks memory", {"reserved_memory_mb": 8000}, False),
    ("memory for a build that lacks memory", {"reserved_disk_gb": 10}, True),
    ("memory, but too little of it", {"reserved_memory_mb": 7500}, False),
    ("memory on a host without vcpus", {"reserved_vcpus": 8}, False),
    ("all that there is", {}, True),
]


@pytest.mark.parametrize(("freed", "held", "woken"), LACKS, ids=[case[0] for case in LACKS])
def test_what_is_freed_decides(stage: Stage, freed: str, held: dict[str, int], woken: bool) -> None:
    stage.fill()
    uuid = stage.queue()
    stage.settle()
    stage.report("h1", **held)
    assert ([uuid] if woken else []) == stage.look()


def test_what_no_filter_has_tested_is_not_compared(stage: Stage) -> None:
    """Vcpus are not limited without CoreFilter, and what comes after the filter that left none is unknown."""
    stage.fill()
    uuid = stage.queue(filters=("RamFilter",))
    stage.settle()
    stage.report("h1", reserved_vcpus=8)
    assert [uuid] == stage.look()


def test_a_freed_slot_wakes_no_more_than_it_holds(stage: Stage) -> None:
    """3,000 MB hold two builds of 1,024 MB out of thirty, the oldest ones."""
    stage.fill()
    uuids = [stage.queue() for _each in range(30)]
    stage.settle()
    stage.report("h1", reserved_memory_mb=5000)
    assert uuids[:2] == stage.look()
    stage.report("h1", reserved_memory_mb=4999)
    assert [] == stage.look()


def gone(stage: Stage) -> None:
    """The instance on h2 is deleted."""
    (uuid,) = [row["uuid"] for row in stage.operator.list_instances({"host": "h2"})]
    stage.termination.terminate(context(), [uuid])
    stage.agents.destroyed(context(), uuid, "h2")


CHANGES: list[tuple[str, str, Callable[[Stage], object], Callable[[Stage], object]]] = [
    (
        "a host is enabled",
        "HOSTS_DOWN",
        lambda stage: stage.operator.update_service("h2", True),
        lambda stage: stage.operator.update_service("h2", False),
    ),
    (
        "a host is no longer forced down",
        "CAPACITY",
        lambda stage: stage.operator.force_down("h2", True),
        lambda stage: stage.operator.force_down("h2", False),
    ),
    ("a host joins", "CAPACITY", lambda stage: None, lambda stage: stage.add_host("h3")),
    ("a host joins for a request with conditions", "POLICY", lambda stage: None, lambda stage: stage.add_host("h3")),
    (
        "an aggregate gets a host",
        "POLICY",
        lambda stage: stage.operator.create_aggregate("a", {}),
        lambda stage: stage.operator.add_aggregate_host("a", "h2"),
    ),
    (
        "the metadata of an aggregate change",
        "POLICY",
        lambda stage: (stage.operator.create_aggregate("a", {}), stage.operator.add_aggregate_host("a", "h2")),
        lambda stage: stage.operator.set_aggregate_metadata("a", {"fast": "yes"}),
    ),
    (
        "the ratio of a host is raised",
        "CAPACITY",
        lambda stage: stage.report("h2", reserved_vcpus=7, cpu_allocation_ratio=0.5),
        lambda stage: stage.report("h2", reserved_vcpus=7, cpu_allocation_ratio=4.0),
    ),
]


@pytest.mark.parametrize(("what", "code", "before", "change"), CHANGES, ids=[case[0] for case in CHANGES])
def test_changes_that_wake(
    stage: Stage, what: str, code: str, before: Callable[[Stage], object], change: Callable[[Stage], object]
) -> None:
    stage.fill()
    stage.add_host("h2")
    before(stage)
    stage.clock.advance(60)
    beat(stage, "h1", "h2")
    uuid = stage.queue(code=code)
    stage.settle()
    change(stage)
    assert [uuid] == stage.look()


def test_a_host_of_several_zones_wakes(stage: Stage) -> None:
    """The zone filter accepts each zone that an aggregate names."""
    stage.fill()
    stage.add_host("h2")
    stage.fill("h2")
    stage.operator.create_aggregate("a", {"availability_zone": "east, west"})
    stage.operator.add_aggregate_host("a", "h2")
    uuid = stage.queue(availability_zone="west")
    stage.settle()
    stage.report("h2")
    assert [uuid] == stage.look()


def beat(stage: Stage, *hosts: str) -> None:
    stage.agents.report_state(Heartbeat("fleet-compute", hosts, INCARNATION))


def test_a_host_that_is_heard_of_again_wakes(stage: Stage) -> None:
    """A heartbeat after a silence is a change; one in time is none."""
    stage.clock.advance(stage.limits.service_down_time_s + 1)
    uuid = stage.queue(code="HOSTS_DOWN")
    stage.settle()
    beat(stage, "h1")
    assert [uuid] == stage.look()
    before = stage.database.read(generation)
    beat(stage, "h1")
    assert before == stage.database.read(generation)


def test_a_deleted_instance_wakes(stage: Stage) -> None:
    """Its memory is enough for one build."""
    stage.fill(memory_mb=8000 - 1024, vcpus=0, disk_gb=0)
    taken = stage.place("h1")
    stage.claim(taken, "h1")
    stage.finish(taken, "h1")
    uuids = [stage.queue(), stage.queue()]
    stage.settle()
    stage.termination.terminate(context(), [taken])
    stage.agents.destroyed(context(), taken, "h1")
    assert uuids[:1] == stage.look()


def test_freed_room_does_not_wake_a_request_whose_conditions_fail(stage: Stage) -> None:
    """Unless they are about other instances."""
    stage.fill()
    stage.queue(memory_mb=9000)
    stage.clock.advance(60)
    beat(stage, "h1")
    stage.settle()
    stage.queue(code="POLICY")
    near = stage.queue(code="POLICY", scheduler_hints={"different_host": ["11111111-1111-1111-1111-111111111111"]})
    stage.settle()
    stage.report("h1")
    assert [near] == stage.look()


def test_a_change_between_the_decision_and_the_queue_is_not_missed(stage: Stage) -> None:
    """The scheduler refuses, room is freed, other changes are looked at, and only then the build is queued."""
    stage.fill()
    other = stage.queue(memory_mb=9000)
    stage.settle()

    def meanwhile() -> None:
        stage.refuse()
        stage.report("h1")
        stage.room_queue.look()

    stage.scheduler.before = meanwhile
    (uuid,) = stage.create(wait_for_capacity_s=TWO_HOURS_S)
    stage.work()
    assert ("building", "queued", 1, None) == stage.state(uuid)
    assert [uuid] == stage.look()
    assert "queued" == stage.state(other)[1]


def test_a_change_while_no_conductor_runs_is_not_missed(stage: Stage) -> None:
    """The queue's row names the generation that was looked at."""
    stage.fill()
    uuid = stage.queue()
    stage.settle()
    stage.report("h1")
    assert [uuid] == again(stage).look()


def again(stage: Stage) -> Stage:
    """Another conductor over the same database, with the same clock."""
    other = Stage.__new__(Stage)
    Conductor.__init__(other, stage.database)
    other.clock.now = stage.clock.now
    return other


def test_room_that_woke_in_vain_goes_to_a_build_of_another_shape(stage: Stage) -> None:
    """Not to one that is alike, and not to more than a handful."""
    stage.fill()
    alike = [stage.queue(vcpus=2) for _each in range(3)]
    others = [stage.queue(memory_mb=size) for size in range(1000, 1010)]
    stage.settle()
    stage.report("h1", reserved_memory_mb=6900)
    tried = []
    while woken := stage.look():
        (uuid,) = woken
        tried.append(uuid)
        stage.refuse()
        stage.placement.place(context(), [uuid], 1)
    assert [alike[0], *others[:4]] == tried


def test_a_shape_that_was_woken_in_vain_rests(stage: Stage) -> None:
    """A change in the meantime is not forgotten: it is tried when the rest is over. Each rest is longer, up to a bound."""
    stage.fill()
    uuid = stage.queue()
    stage.settle()
    tries = 0
    for second in itertools.count():
        if second == 120:
            break
        stage.report("h1", reserved_memory_mb=second)
        for each in stage.look():
            tries += 1
            assert uuid == each
            stage.refuse()
            stage.placement.place(context(), [each], 1)
        stage.clock.advance(1)
        beat(stage, "h1")
    assert 3 <= tries <= 20


def test_projects_take_turns(stage: Stage) -> None:
    """Three builds of a project came before two of another; the oldest of each project first."""
    stage.fill()
    a = [stage.queue(project="a") for _each in range(3)]
    b = [stage.queue(project="b") for _each in range(2)]
    stage.settle()
    order = []
    for step in range(1, 6):
        stage.report("h1", reserved_memory_mb=8000 - 1024 * step)
        (uuid,) = stage.look()
        order.append(uuid)
        stage.scheduler.answers.append([("h1", ())])
        stage.placement.place(context(), [uuid], 1)
        stage.claim(uuid, "h1")
        stage.clock.advance(1)
        beat(stage, "h1")
    assert [a[0], b[0], a[1], b[1], a[2]] == order


def test_builds_that_a_room_does_not_help_hide_none_behind_them(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are of them: they are older, and more than one look reads at a time."""
    monkeypatch.setattr("conductor_stub.builds.room_queue.BATCH", 3)
    stage.fill()
    stage.clock.advance(60)
    beat(stage, "h1")
    for cores in (1, 1, 1, 1, 3, 3, 3):
        stage.queue(cores, code="POLICY", filters=())
    uuid = stage.queue(2)
    stage.settle()
    stage.report("h1")
    assert [uuid] == stage.look()


def test_two_conductors_wake_once(stage: Stage) -> None:
    """Eight looks at the same moment wake each of the four builds that fit once, and no other."""
    stage.fill()
    uuids = [stage.queue() for _each in range(8)]
    stage.settle()
    stage.report("h1", reserved_memory_mb=8000 - 4 * 1024)
    with futures.ThreadPoolExecutor(8) as threads:
        for each in [threads.submit(stage.room_queue.look) for _each in range(8)]:
            each.result(timeout=60)
    assert sorted(uuids[:4]) == sorted(stage.handed())


def test_builds_of_one_request_are_woken_together(stage: Stage) -> None:
    """If none may be placed without the others, one decision is about all of them."""
    stage.fill()
    stage.refuse()
    uuids = stage.create(count=3, wait_for_capacity_s=TWO_HOURS_S)
    stage.work()
    stage.settle()
    stage.report("h1", reserved_memory_mb=8000 - 1024)
    stage.room_queue.look()
    assert [sorted(uuids)] == [sorted(those) for _context, those, _attempt in stage.tasks.cast]


def test_the_queue_forgets_builds_that_are_placed(stage: Stage) -> None:
    stage.fill()
    uuid = stage.queue()
    other = stage.queue(memory_mb=9000)
    stage.settle()
    stage.report("h1", reserved_memory_mb=6900)
    assert [uuid] == stage.look()
    stage.scheduler.answers.append([("h1", ())])
    stage.placement.place(context(), [uuid], 1)
    stage.claim(uuid, "h1")
    stage.look()
    left = stage.database.read(lambda connection: connection.execute(models.queued_builds.select()).all())
    assert [other] == [row.instance_uuid for row in left]


def test_the_queue_is_listed_in_the_order_of_waking(stage: Stage) -> None:
    """With the place among all, what the nearest host lacks, and the host that is kept."""
    stage.fill()
    a = [stage.queue(project="a") for _each in range(2)]
    b = [stage.queue(project="b", name="b")]
    listed = stage.operator.list_queue()["builds"]
    assert [(1, a[0]), (2, b[0]), (3, a[1])] == [(each["place"], each["uuid"]) for each in listed]
    assert {"CAPACITY"} == {each["reason"] for each in listed}
    assert {"1 vcpus"} == {each["lacks"] for each in listed}
    assert [(3, a[1])] == [
        (each["place"], each["uuid"]) for each in stage.operator.list_queue("a")["builds"] if each["place"] > 1
    ]
    assert [a[0]] == [each["uuid"] for each in stage.operator.list_queue(limit=1)["builds"]]
    with databases.statements(stage.database.engine) as sent:
        assert [(2, b[0])] == [
            (each["place"], each["uuid"]) for each in stage.operator.list_queue("b", limit=1)["builds"]
        ]
    # Any member may ask, and of the builds of others there may be very many.
    assert "LIMIT" in sent[-1]

    stage.clock.advance(stage.limits.queue_patience_s)
    beat(stage, "h1")
    for uuid in stage.look():
        stage.refuse()
        stage.placement.place(context(), [uuid], 1)
    kept = {each["uuid"]: each["kept_host"] for each in stage.operator.list_queue()["builds"]}
    assert {a[0]: "h1", a[1]: None, b[0]: None} == kept


def test_the_conductor_examines_the_queue(stage: Stage) -> None:
    """For fleet doctor and the metrics."""
    assert {"number": 0, "oldest_s": 0.0} == stage.operator.examine()["queued"]
    stage.queue()
    stage.clock.advance(60)
    stage.queue()
    found = stage.operator.examine()["queued"]
    assert (2, 60) == (found["number"], round(found["oldest_s"]))
    stage.room_queue.look()
    assert 2 == metrics.QUEUED_BUILDS._value.get()
    assert 60 == round(metrics.OLDEST_QUEUED._value.get())


def test_a_build_that_has_waited_is_no_old_build(stage: Stage) -> None:
    """Alerts watch the age of the oldest build under way, which has ten minutes."""
    stage.fill()
    stage.queue()
    stage.settle()
    stage.clock.advance(3000)
    beat(stage, "h1")
    stage.report("h1")
    stage.look()
    stage.sweeper.end_overdue()
    assert 0 == metrics.OLDEST_BUILD._value.get()


def test_a_new_build_waits_behind_one_like_it(stage: Stage) -> None:
    """Without a decision, also if room was freed a moment ago; one of another size is decided at once."""
    stage.fill()
    first = stage.queue()
    stage.settle()
    stage.report("h1", reserved_memory_mb=6900)
    asked = len(stage.scheduler.requests)
    like = {"flavor": {"vcpus": 1, "memory_mb": 1024, "root_gb": 10}, "wait_for_capacity_s": TWO_HOURS_S}
    stage.clock.advance(0.001)
    (second,) = stage.create(**like)
    assert 0 == stage.work()
    assert asked == len(stage.scheduler.requests)
    assert ("building", "queued", 1, None) == stage.state(second)
    shown = stage.operator.show_instance(second)
    assert (["create", "queue"], "CAPACITY") == ([each["event"] for each in shown["events"]], shown["queued"]["reason"])
    assert [first, second] == [payload["instance_id"] for _event, payload in stage.notifier.infos]
    assert [first] == stage.look()

    stage.scheduler.answers.append([("h1", ())])
    stage.placement.place(context(), [first], 1)
    stage.claim(first, "h1")
    stage.report("h1", reserved_memory_mb=8000 - 3 * 1024)
    assert [second] == stage.look()
    (third,) = stage.create(**like)
    assert "scheduling" == stage.state(third)[1]
    (alone,) = stage.create(**{**like, "wait_for_capacity_s": 0})
    assert "scheduling" == stage.state(alone)[1]


CONDITIONS = [
    ("networks", {"networks": [{"network": UUID.format(1)}]}),
    ("image", {"image": {"id": UUID.format(2)}}),
    ("host", {"availability_zone": ":h1"}),
]


@pytest.mark.parametrize(("of", "request_"), CONDITIONS, ids=[case[0] for case in CONDITIONS])
def test_a_build_with_other_conditions_does_not_wait_behind_one(
    stage: Stage, of: str, request_: dict[str, object]
) -> None:
    """BridgeFilter and IsolatedHostsFilter may have refused the one, and have no objection to the other."""
    a_network(stage.database)
    stage.queue(code="POLICY", **request_)
    (other,) = stage.create(wait_for_capacity_s=TWO_HOURS_S)
    assert "scheduling" == stage.state(other)[1]
    assert [] == [each["uuid"] for each in stage.operator.list_queue()["builds"] if each["uuid"] == other]


def test_a_repeated_request_that_waits_behind_another_gets_its_first_answer(stage: Stage) -> None:
    stage.fill()
    stage.queue()
    wanted = BuildRequest.from_wire(
        {"flavor": {"vcpus": 1, "memory_mb": 1024, "root_gb": 10}, "wait_for_capacity_s": TWO_HOURS_S}
    )
    answers = [stage.intake.accept(context(), wanted, "a token") for _twice in range(2)]
    assert answers[0] == answers[1]
    assert 2 == len(stage.operator.list_queue()["builds"])


def test_a_build_that_waits_behind_another_is_tried_again_like_any(stage: Stage) -> None:
    """The one before it was deleted, and a wake-up was missed."""
    stage.fill()
    first = stage.queue()
    stage.settle()
    second = stage.queue()
    stage.settle()
    stage.termination.terminate(context(), [first])
    stage.report("h1", reserved_memory_mb=1)
    stage.database.write(lambda tx: tx.execute(models.room_queue.update().values(generation=10**9)))
    assert [] == stage.look()
    stage.clock.advance(stage.limits.queue_recheck_interval_s)
    assert [second] == stage.look()
