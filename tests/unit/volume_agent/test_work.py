# SPDX-License-Identifier: Apache-2.0
"""What an agent does with volumes: orders, recovery after a restart, and reports."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

import oslo_messaging
import pytest

from fleet import errors
from fleet.agent.patience import Patience
from fleet.agent.work_queues import WorkQueues
from fleet.context import new_context
from fleet.objects import Volume
from tests.unit.volume_agent.builders import HOST, FakeConductor, backend, calls, options, stored, volume
from volume_agent.backends.backend import Backend, Policy
from volume_agent.drivers.fake import FakeDriver
from volume_agent.ledger.reporter import Reporter
from volume_agent.work import recovery
from volume_agent.work.volume import VolumeWorker

GIVEN_UP = threading.Event()
GIVEN_UP.set()


class Stand:
    """A backend with the pool p1 of 100 GiB, and the conductor that it calls."""

    def __init__(self, *volumes: Volume, **given: Any) -> None:
        self.conductor = FakeConductor(*volumes)
        self.driver = FakeDriver(options(**{"fake_pools": {"p1": "100"}, **given}))
        self.backend = backend(self.driver)
        self.calls = calls(self.conductor, Patience(GIVEN_UP))
        self.worker = VolumeWorker(self.backend, self.calls)
        self.ordered: list[str] = []

    def run(self, uuid: str) -> None:
        self.worker.run(new_context(), uuid)

    def recover(self) -> None:
        recovery.recover(new_context(), self.backend, self.calls, lambda _context, uuid: self.ordered.append(uuid))

    def status(self, uuid: str) -> str:
        return self.conductor.volumes[uuid].status


def test_a_volume_is_made_once() -> None:
    """A repeated order finds the volume available, and does nothing."""
    made = volume()
    stand = Stand(made)
    for _ in range(2):
        stand.run(made.uuid)
    assert ("available", [made.uuid]) == (stand.status(made.uuid), list(stored(stand.driver)))


def test_an_order_without_a_volume_does_nothing() -> None:
    """The row decides: it may be on another backend, or waiting for no backend."""
    elsewhere, settled = volume(host="m2@store"), volume(status="available", step=None)
    stand = Stand(elsewhere, settled)
    for uuid in (elsewhere.uuid, settled.uuid, volume().uuid):
        stand.run(uuid)
    assert {} == stored(stand.driver)


def test_a_failure_is_reported_with_its_reason() -> None:
    """Nothing is left on the backend."""
    made = volume()
    stand = Stand(made, fake_failures=["p1"])
    stand.run(made.uuid)
    (failure,) = stand.conductor.failures
    assert ("creating", "FakeVolumeFailure", "pool p1 is configured to fail") == (
        *(failure["step"], failure["code"], failure["message"]),
    )
    assert ("error", {}) == (stand.status(made.uuid), stored(stand.driver))


def test_what_a_former_life_has_made_is_not_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its report arrives while the new life makes the volume again, and fails. The ledger decides."""
    made = volume()
    stand = Stand(made)
    stand.driver.create(made)

    def fail(_wanted: Volume) -> None:
        stand.conductor.volume_done(new_context(), made.uuid, 1, HOST, "creating")
        raise OSError("it is there already")

    monkeypatch.setattr(stand.driver, "create", fail)
    stand.run(made.uuid)
    assert ("available", [made.uuid], []) == (
        stand.status(made.uuid),
        list(stored(stand.driver)),
        stand.conductor.failures,
    )


@pytest.mark.parametrize(("failing", "size_gb"), [([], 7), (["p1"], 1)], ids=["it works", "it fails"])
def test_a_volume_is_extended(failing: list[str], size_gb: int) -> None:
    """To what the ledger has claimed for it, or not at all; the failure is reported."""
    made = volume(status="extending", claimed_gb=7)
    stand = Stand(made)
    stand.driver.create(made)
    stand.driver._failing = frozenset(failing)
    stand.run(made.uuid)
    assert (size_gb, len(failing)) == (stored(stand.driver)[made.uuid][1], len(stand.conductor.failures))


def test_an_extension_that_an_earlier_try_has_made_is_done() -> None:
    """The report of that try was lost, and the backend refuses another one."""
    made = volume(status="extending", claimed_gb=7)
    stand = Stand(made)
    stand.driver.create(made)
    stand.driver.extend(made, 7)
    stand.driver._failing = frozenset({"p1"})
    stand.run(made.uuid)
    assert ("available", []) == (stand.status(made.uuid), stand.conductor.failures)


@pytest.mark.parametrize("failing", [False, True], ids=["it works", "it fails"])
def test_a_volume_is_adapted_to_its_type(failing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its driver; the failure is reported."""
    made = volume(status="retyping")
    stand = Stand(made)
    adapted: list[str] = []

    def adapt(wanted: Volume) -> None:
        adapted.append(wanted.uuid)
        if failing:
            raise OSError("cannot be made thick")

    monkeypatch.setattr(stand.driver, "retype", adapt)
    stand.run(made.uuid)
    assert ([made.uuid], ["cannot be made thick"] * failing) == (
        adapted,
        [each["message"] for each in stand.conductor.failures],
    )
    assert failing or "available" == stand.status(made.uuid)


def test_what_lies_on_the_pool_becomes_the_volume() -> None:
    """Its size is reported first. Once the ledger has claimed it, the volume is there; nothing else is touched."""
    wanted = volume(status="managing", size_gb=0, reference="disk")
    stand = Stand(wanted, fake_existing={"p1/disk": "3", "p1/other": "4"})
    stand.run(wanted.uuid)
    assert ([(3, 3)], "available", {wanted.uuid: ("p1", 3)}) == (
        *(stand.conductor.measured, stand.status(wanted.uuid), stored(stand.driver)),
    )
    stand.conductor.volumes[wanted.uuid] = dataclasses.replace(wanted, status="unmanaging", claimed_gb=3)
    for _repeated in range(2):
        stand.run(wanted.uuid)
    assert ("deleted", {}) == (stand.status(wanted.uuid), stored(stand.driver))
    assert {"other", f"unmanaged-{wanted.uuid}"} == {each["reference"] for each in stand.worker.manageable()}


@pytest.mark.parametrize("claimed_gb", [0, 3], ids=["before its claim", "after its claim"])
def test_what_cannot_become_a_volume_is_reported(claimed_gb: int) -> None:
    """Nothing has the name of the volume then."""
    wanted = volume(status="managing", size_gb=claimed_gb, claimed_gb=claimed_gb, reference="none")
    stand = Stand(wanted, fake_existing={"p1/disk": "3"})
    stand.run(wanted.uuid)
    (failure,) = stand.conductor.failures
    assert ("managing", "InvalidReference") == (failure["step"], failure["code"])
    assert "none cannot be managed: pool p1 has nothing of this name." == failure["message"]
    assert ({}, 1) == (stored(stand.driver), len(stand.worker.manageable()))


def test_a_host_learns_where_a_volume_is() -> None:
    """Or that it is not on the pool."""
    wanted = volume()
    stand = Stand(wanted)
    with pytest.raises(errors.NotFound, match=wanted.uuid):
        stand.worker.connection(wanted.uuid, "p1")
    stand.driver.create(wanted)
    assert wanted.uuid in stand.worker.connection(wanted.uuid, wanted.pool or "").path


def test_a_volume_that_cannot_lose_its_name_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweeper repeats the order; meanwhile the volume counts."""
    wanted = volume(status="unmanaging", claimed_gb=1)
    stand = Stand(wanted)
    stand.driver.create(wanted)

    def refuse(uuid: str, pool: str) -> None:
        raise OSError("the disk said no")

    monkeypatch.setattr(stand.driver, "unmanage", refuse)
    stand.run(wanted.uuid)
    assert ("unmanaging", []) == (stand.status(wanted.uuid), stand.conductor.failures)


def test_a_volume_is_removed() -> None:
    """The ledger deletes it when its backend has removed it."""
    made = volume()
    stand = Stand(made)
    stand.run(made.uuid)
    stand.conductor.volumes[made.uuid] = dataclasses.replace(made, status="deleting")
    stand.run(made.uuid)
    assert ("deleted", {}) == (stand.status(made.uuid), stored(stand.driver))


def migrating(**given: Any) -> Volume:
    """A volume of another backend that is to be copied to p1."""
    known = {"host": "m2@store", "pool": "far", "status": "migrating", "step": "copying", "copy_from": "fake"}
    return volume(**{**known, "held_host": HOST, "held_pool": "p1", "size_gb": 3, **given})


def test_a_volume_migrates_here() -> None:
    """Once; what follows is for the backend that it has left."""
    moving = migrating()
    stand = Stand(moving)
    for _ in range(2):
        stand.run(moving.uuid)
    arrived = stand.conductor.volumes[moving.uuid]
    assert ("available", "removing", ("m2@store", "far")) == (arrived.status, arrived.step, arrived.acting)
    assert {moving.uuid: ("p1", 3)} == stored(stand.driver)


def test_a_volume_migrates_within_a_backend() -> None:
    """One order does both parts."""
    moving = migrating(host=HOST, pool="p0")
    stand = Stand(moving, fake_pools={"p0": "10", "p1": "10"})
    stand.driver.create(dataclasses.replace(moving, step="working"))
    stand.run(moving.uuid)
    assert (("available", None), {moving.uuid: ("p1", 3)}) == (
        (stand.status(moving.uuid), stand.conductor.volumes[moving.uuid].step),
        stored(stand.driver),
    )


def test_a_copy_that_fails_is_reported_and_leaves_nothing() -> None:
    """The conductor then tries another backend."""
    moving = migrating()
    stand = Stand(moving, fake_failures=["p1"])
    stand.run(moving.uuid)
    assert (["pool p1 is configured to fail"], {}) == (
        [each["message"] for each in stand.conductor.failures],
        stored(stand.driver),
    )


def test_a_copy_that_was_given_up_meanwhile_is_removed() -> None:
    """Whether the ledger has the volume elsewhere, or holds the pool until its copy is removed."""
    for given_up in ({"held_host": None, "held_pool": None}, {"status": "available", "step": "removing"}):
        moving = migrating()
        stand = Stand(moving)
        receive = stand.driver.receive

        def late(
            wanted: Volume, pool: str, receive: Any = receive, changed: Any = given_up, stand: Any = stand
        ) -> None:
            receive(wanted, pool)
            stand.conductor.volumes[wanted.uuid] = dataclasses.replace(wanted, **changed)

        stand.driver.receive = late  # type: ignore[method-assign]
        stand.run(moving.uuid)
        assert {} == stored(stand.driver)


def test_after_a_restart_migrations_go_on(caplog: pytest.LogCaptureFixture) -> None:
    """A copy that nobody waits for is removed, unless it is the only one."""
    coming = migrating()
    left, moved = volume("p0", status="available", step=None), volume("p0", status="available", step=None, name="v2")
    stand = Stand(coming, left, moved, fake_pools={"p0": "10", "p1": "10"})
    for each in (left, dataclasses.replace(left, pool="p1"), dataclasses.replace(moved, pool="p1")):
        stand.driver.create(each)
    stand.recover()
    assert [coming.uuid] == stand.ordered
    assert {left.uuid: ("p0", 1), moved.uuid: ("p1", 1)} == stored(stand.driver)
    assert f"Volume {moved.uuid} (v2) is lost: it is not on m1@store#p0" in caplog.text
    assert 1 == caplog.text.count("is lost")


def test_a_volume_that_cannot_be_removed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its space stays claimed; the conductor repeats the order."""
    made = volume(status="deleting")
    stand = Stand(made)

    def busy(_uuid: str, _pool: str) -> None:
        raise OSError("busy")

    monkeypatch.setattr(stand.driver, "delete", busy)
    stand.run(made.uuid)
    assert "deleting" == stand.status(made.uuid)


def test_a_volume_that_was_given_up_meanwhile_is_removed() -> None:
    """The ledger has it on another backend by the time it is made."""
    made = volume()
    stand = Stand(made)
    create = stand.driver.create

    def late(wanted: Volume) -> None:
        create(wanted)
        stand.conductor.volumes[made.uuid] = dataclasses.replace(made, host="m2@store", attempt=2)

    stand.driver.create = late  # type: ignore[method-assign]
    stand.run(made.uuid)
    assert {} == stored(stand.driver)


def test_a_volume_in_error_that_keeps_its_claim_stays() -> None:
    """It took too long: it is removed when its user deletes it."""
    made = volume()
    stand = Stand(made)
    create = stand.driver.create

    def late(wanted: Volume) -> None:
        create(wanted)
        stand.conductor.volumes[made.uuid] = dataclasses.replace(made, status="error", step=None)

    stand.driver.create = late  # type: ignore[method-assign]
    stand.run(made.uuid)
    assert [made.uuid] == list(stored(stand.driver))


def test_a_conductor_that_does_not_answer_is_left_to_the_sweeper(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made stays: the repeated order reports it."""
    made = volume()
    stand = Stand(made)
    with monkeypatch.context() as lost:

        def silent(*_context: Any, **_arguments: Any) -> None:
            raise oslo_messaging.MessagingTimeout("lost")

        lost.setattr(stand.conductor, "volume_done", silent)
        stand.run(made.uuid)
    assert ("creating", [made.uuid]) == (stand.status(made.uuid), list(stored(stand.driver)))
    stand.run(made.uuid)
    assert "available" == stand.status(made.uuid)


def test_after_a_restart_work_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """What was begun is ordered again; what the ledger has deleted is removed; what it does not know stays."""
    begun, there, deleted, unknown = volume(), volume(status="available", step=None), volume(), volume()
    lost = volume(status="available", step=None, name="precious")
    stand = Stand(begun, there, lost)
    for each in (there, deleted, unknown):
        stand.driver.create(each)
    stand.conductor.gone = {deleted.uuid}
    stand.recover()
    assert [begun.uuid] == stand.ordered
    assert {there.uuid, unknown.uuid} == stored(stand.driver).keys()
    assert "has 1 volumes that the ledger does not know" in caplog.text
    assert f"Volume {lost.uuid} (precious) is lost: it is not on m1@store#p1" in caplog.text


def test_what_was_given_up_is_removed_without_a_restart() -> None:
    """What the ledger does not know stays, and so does a volume with work in its queue."""
    there, given_up, unknown, busy = volume(status="available", step=None), volume(), volume(), volume()
    stand = Stand(there)
    for each in (there, given_up, unknown, busy):
        stand.driver.create(each)
    stand.conductor.gone = {given_up.uuid, busy.uuid}
    waiting = Waiting()
    queues = WorkQueues(waiting, slots=0)
    queues.submit(busy.uuid, lambda: None)
    recovery.remove_left(new_context(), stand.backend, stand.calls, queues)
    waiting.run()
    assert {there.uuid, unknown.uuid, busy.uuid} == stored(stand.driver).keys()


def test_a_volume_that_comes_back_before_it_is_removed_stays() -> None:
    """The ledger is asked again when no other work on the volume runs."""
    made = volume()
    stand = Stand()
    stand.driver.create(made)
    stand.conductor.gone = {made.uuid}
    waiting = Waiting()
    recovery.remove_left(new_context(), stand.backend, stand.calls, WorkQueues(waiting, slots=0))
    stand.conductor.gone.clear()
    waiting.run()
    assert {made.uuid} == stored(stand.driver).keys()


class Waiting(futures.Executor):
    """Runs nothing until it is told to."""

    def __init__(self) -> None:
        self._works: list[Callable[[], object]] = []

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        self._works.append(lambda: work(*args, **kwargs))
        return futures.Future()

    def run(self) -> None:
        while self._works:
            self._works.pop(0)()


def test_a_stray_is_not_allocated() -> None:
    """It is part of what the pool provides, like everything else that is not the fleet's."""
    mine, stray = volume(size_gb=10, status="available", step=None), volume(size_gb=5)
    stand = Stand(mine)
    for each in (mine, stray):
        stand.driver.create(each)
    stand.recover()
    (report,) = stand.backend.report()
    assert (10, 15) == (
        *(report.capabilities["allocated_capacity_gb"], report.capabilities["provisioned_capacity_gb"]),
    )


def test_a_stray_that_the_ledger_places_here_again_is_counted() -> None:
    """An earlier attempt has made it, and its claim was released before the agent had reported that."""
    made = volume(size_gb=5)
    stand = Stand()
    stand.driver.create(made)
    stand.recover()
    stand.conductor.volumes[made.uuid] = made
    stand.run(made.uuid)
    (report,) = stand.backend.report()
    assert ("available", 5) == (stand.status(made.uuid), report.capabilities["allocated_capacity_gb"])


def test_a_report_has_what_the_operator_configured() -> None:
    """Extra capabilities are added to each pool."""
    policy = Policy("fast", "z1", 10, "auto", "1 == 1", None, {"tier": "gold"})
    (report,) = Backend(HOST, FakeDriver(options(fake_pools={"p1": "100"})), policy).report()
    assert ("z1", HOST, "p1") == (report.availability_zone, report.host, report.pool)
    expected = {
        "volume_backend_name": "fast",
        "reserved_percentage": 10,
        "max_over_subscription_ratio": "auto",
        "filter_function": "1 == 1",
        "tier": "gold",
        "storage_protocol": "fake",
    }
    assert expected == {key: report.capabilities[key] for key in expected}
    assert "goodness_function" not in report.capabilities


class FakePresence:
    def __init__(self) -> None:
        self.beats: list[list[str]] = []
        self.superseded: list[str] = []

    def heartbeat(self, hosts: list[str]) -> dict[str, Any]:
        self.beats.append(list(hosts))
        return {"superseded": self.superseded}

    def answered(self) -> None: ...

    def unanswered(self, silence: Exception) -> None: ...


def test_a_copy_is_reported_when_there_is_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that copies nothing sends nothing."""
    moving = migrating()
    stand = Stand(moving)
    reporter = Reporter(stand.conductor, FakePresence(), [stand.backend], lambda _name, _why: None)  # type: ignore[arg-type]
    percents = iter([10, 10, 20])
    monkeypatch.setattr(stand.driver, "copied_percent", lambda _volume, _pool: next(percents))
    reporter.report_copies()
    with stand.backend.copying(moving):
        for _look in range(3):
            reporter.report_copies()
    reporter.report_copies()
    assert [{HOST: {moving.uuid: percent}} for percent in (10, 20)] == stand.conductor.copies


def test_a_backend_that_cannot_be_used_is_down(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It sends no heartbeats until it can be used again; the log has one line."""
    stand, presence = Stand(), FakePresence()
    stopped: list[str] = []
    reporter = Reporter(stand.conductor, presence, [stand.backend], lambda name, _why: stopped.append(name))  # type: ignore[arg-type]
    reporter.report()
    reporter.heartbeat()
    with monkeypatch.context() as broken:

        def unreadable() -> None:
            raise PermissionError("the directory cannot be written")

        broken.setattr(stand.driver, "stats", unreadable)
        for _ in range(2):
            reporter.report()
        reporter.heartbeat()
    reporter.report()
    presence.superseded = [HOST]
    reporter.heartbeat()
    assert [[HOST], [], [HOST]] == presence.beats
    assert ([HOST], 1) == (stopped, caplog.text.count("cannot be used, and counts as down"))


@pytest.mark.parametrize(
    ("odd", "known"),
    [
        ({"total_capacity_gb": float("nan")}, ["p1", "p2"]),
        ({"free_capacity_gb": float("inf")}, ["p1", "p2"]),
        ({"pool_name": ""}, []),
        ({"pool_name": None}, []),
    ],
)
def test_a_report_that_no_message_can_carry(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, odd: dict[str, Any], known: list[str]
) -> None:
    """It is one line each time, and the other pools are reported. Without a name, the backend stays as it was reported."""
    driver = FakeDriver(options(fake_pools={"p1": "100", "p2": "100"}))
    backend, conductor = Backend(HOST, driver, Policy("store", "z1")), FakeConductor()
    sane = driver.stats()
    first, second = sane["pools"]
    monkeypatch.setattr(driver, "stats", lambda: {**sane, "pools": [first, {**second, **odd}]})
    reporter = Reporter(conductor, FakePresence(), [backend], lambda *_superseded: None)  # type: ignore[arg-type]
    for _report in range(2):
        reporter.report()
    reported = [each["pool"] for each in conductor.reports]
    assert ((["p1"], {HOST: known}) if known else ([], {})) == (reported, conductor.pools)
    assert 2 == caplog.text.count(f"of {HOST}#p2 is not sent") + caplog.text.count(
        f"The pools of {HOST} are not reported"
    )
