# SPDX-License-Identifier: Apache-2.0
"""What an agent does with volumes: orders, recovery after a restart, and reports."""

from __future__ import annotations

import dataclasses
import pathlib
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
from tests.unit.volume_agent.builders import HOST, backend, options, stored, volume
from tests.worlds.one_backend import GIVEN_UP, OneBackend, calls
from tests.worlds.storage_ledger import StorageLedger
from volume_agent.backends.backend import Backend, Policy
from volume_agent.drivers.directory import DirectoryDriver
from volume_agent.drivers.fake import FakeDriver
from volume_agent.ledger.reporter import Reporter
from volume_agent.work import recovery


def test_a_volume_is_made_once() -> None:
    """A repeated order finds the volume available, and does nothing."""
    made = volume()
    world = OneBackend(made)
    for _ in range(2):
        world.run(made.uuid)
    assert ("available", [made.uuid]) == (world.status(made.uuid), list(stored(world.driver)))


def test_an_order_without_a_volume_does_nothing() -> None:
    """The row decides: it may be on another backend, or waiting for no backend."""
    elsewhere, settled = volume(host="m2@store"), volume(status="available", step=None)
    world = OneBackend(elsewhere, settled)
    for uuid in (elsewhere.uuid, settled.uuid, volume().uuid):
        world.run(uuid)
    assert {} == stored(world.driver)


def test_a_failure_is_reported_with_its_reason() -> None:
    """Nothing is left on the backend."""
    made = volume()
    world = OneBackend(made, fake_failures=["p1"])
    world.run(made.uuid)
    (failure,) = world.conductor.failures
    assert ("creating", "FakeVolumeFailure", "pool p1 is configured to fail") == (
        *(failure["step"], failure["code"], failure["message"]),
    )
    assert ("error", {}) == (world.status(made.uuid), stored(world.driver))


def test_a_long_reason_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver may quote all that its storage has answered. A database would refuse the report, again and again."""
    made = volume()
    world = OneBackend(made)

    def fail(_volume: Volume) -> None:
        raise OSError(f"the array answers {'€' * 100_000}")

    monkeypatch.setattr(world.driver, "create", fail)
    world.run(made.uuid)
    (failure,) = world.conductor.failures
    assert ("the array answers €", 1000) == (failure["message"][:19], len(failure["message"]))


def test_a_reason_that_is_no_plain_text_is_reported_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger refuses a NUL: the volume would try no other pool."""
    made = volume()
    world = OneBackend(made)

    def fail(_volume: Volume) -> None:
        raise OSError("no such file: dep\0t\nsecond line")

    monkeypatch.setattr(world.driver, "create", fail)
    world.run(made.uuid)
    (failure,) = world.conductor.failures
    assert "no such file: dep\\x00t\nsecond line" == failure["message"]


@pytest.mark.parametrize("when", ["while it works", "at the last moment", "too late"])
@pytest.mark.parametrize("work", ["create", "receive"])
def test_what_a_former_life_has_made_is_not_removed(monkeypatch: pytest.MonkeyPatch, work: str, when: str) -> None:
    """Its report arrives while the new life makes the volume again, and fails. The first report in the ledger decides."""
    made = volume() if work == "create" else migrating(size_gb=1)
    world = OneBackend(made)
    world.driver._make(made, "p1")
    failed = world.conductor.volume_failed

    def report() -> None:
        world.conductor.volume_done(new_context(), made.uuid, 1, HOST, made.status)

    def fail(*_wanted: object) -> None:
        if when == "while it works":
            report()
        raise OSError("lvs has not ended within 120 s")

    def reported(*failure: Any, **more: Any) -> Any:
        if when == "at the last moment":
            report()
        answer = failed(*failure, **more)
        report()
        return answer

    monkeypatch.setattr(world.driver, work, fail)
    monkeypatch.setattr(world.conductor, "volume_failed", reported)
    world.run(made.uuid)
    expected = ("error", {}) if when == "too late" else ("available", {made.uuid: ("p1", 1)})
    assert expected == (world.status(made.uuid), stored(world.driver))
    assert [True] == [each["leaves"] for each in world.conductor.failures]


@pytest.mark.parametrize(("failing", "size_gb"), [([], 7), (["p1"], 1)], ids=["it works", "it fails"])
def test_a_volume_is_extended(failing: list[str], size_gb: int) -> None:
    """To what the ledger has claimed for it, or not at all; the failure is reported."""
    made = volume(status="extending", claimed_gb=7)
    world = OneBackend(made)
    world.driver.create(made)
    world.driver._failing = frozenset(failing)
    world.run(made.uuid)
    assert (size_gb, len(failing)) == (stored(world.driver)[made.uuid][1], len(world.conductor.failures))


def test_a_failed_extension_says_what_an_earlier_one_has_left() -> None:
    """The report of that one was lost, and more than it made cannot be had."""
    made = volume(status="extending", claimed_gb=9)
    world = OneBackend(made)
    world.driver.create(made)
    world.driver.extend(made, 7)
    world.driver._failing = frozenset({"p1"})
    world.run(made.uuid)
    assert [7] == [each["size_gb"] for each in world.conductor.failures]


def test_an_extension_of_unknown_outcome_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool cannot be read: the order comes again, and nothing is given back."""
    made = volume(status="extending", claimed_gb=7)
    world = OneBackend(made)
    world.driver.create(made)
    world.driver._failing = frozenset({"p1"})

    def unreadable() -> None:
        raise OSError("the pool is away")

    monkeypatch.setattr(world.driver, "volumes", unreadable)
    world.run(made.uuid)
    assert ("extending", []) == (world.status(made.uuid), world.conductor.failures)


def test_an_extension_that_an_earlier_try_has_made_is_done() -> None:
    """The report of that try was lost, and the backend refuses another one."""
    made = volume(status="extending", claimed_gb=7)
    world = OneBackend(made)
    world.driver.create(made)
    world.driver.extend(made, 7)
    world.driver._failing = frozenset({"p1"})
    world.run(made.uuid)
    assert ("available", []) == (world.status(made.uuid), world.conductor.failures)


@pytest.mark.parametrize("failing", [False, True], ids=["it works", "it fails"])
def test_a_volume_is_adapted_to_its_type(failing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its driver; the failure is reported."""
    made = volume(status="retyping")
    world = OneBackend(made)
    adapted: list[str] = []

    def adapt(wanted: Volume) -> None:
        adapted.append(wanted.uuid)
        if failing:
            raise OSError("cannot be made thick")

    monkeypatch.setattr(world.driver, "retype", adapt)
    world.run(made.uuid)
    assert ([made.uuid], ["cannot be made thick"] * failing) == (
        adapted,
        [each["message"] for each in world.conductor.failures],
    )
    assert failing or "available" == world.status(made.uuid)


def test_what_lies_on_the_pool_becomes_the_volume() -> None:
    """Its size is reported first. Once the ledger has claimed it, the volume is there; nothing else is touched."""
    wanted = volume(status="managing", size_gb=0, reference="disk")
    world = OneBackend(wanted, fake_existing={"p1/disk": "3", "p1/other": "4"})
    world.run(wanted.uuid)
    assert ([(3, 3)], "available", {wanted.uuid: ("p1", 3)}) == (
        *(world.conductor.measured, world.status(wanted.uuid), stored(world.driver)),
    )
    world.conductor.volumes[wanted.uuid] = dataclasses.replace(wanted, status="unmanaging", claimed_gb=3)
    for _repeated in range(2):
        world.run(wanted.uuid)
    assert ("deleted", {}) == (world.status(wanted.uuid), stored(world.driver))
    assert {"other", f"unmanaged-{wanted.uuid}"} == {each["reference"] for each in world.worker.manageable()}


@pytest.mark.parametrize("claimed_gb", [0, 3], ids=["before its claim", "after its claim"])
def test_what_cannot_become_a_volume_is_reported(claimed_gb: int) -> None:
    """Nothing has the name of the volume then."""
    wanted = volume(status="managing", size_gb=claimed_gb, claimed_gb=claimed_gb, reference="none")
    world = OneBackend(wanted, fake_existing={"p1/disk": "3"})
    world.run(wanted.uuid)
    (failure,) = world.conductor.failures
    assert ("managing", "InvalidReference") == (failure["step"], failure["code"])
    assert "none cannot be managed: pool p1 has nothing of this name." == failure["message"]
    assert ({}, 1) == (stored(world.driver), len(world.worker.manageable()))


def test_a_host_learns_where_a_volume_is() -> None:
    """Or that it is not on the pool."""
    wanted = volume()
    world = OneBackend(wanted)
    with pytest.raises(errors.NotFound, match=wanted.uuid):
        world.worker.connection(wanted.uuid, "p1")
    world.driver.create(wanted)
    assert wanted.uuid in world.worker.connection(wanted.uuid, wanted.pool or "").path


def test_a_volume_that_cannot_lose_its_name_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweeper repeats the order; meanwhile the volume counts."""
    wanted = volume(status="unmanaging", claimed_gb=1)
    world = OneBackend(wanted)
    world.driver.create(wanted)

    def refuse(uuid: str, pool: str) -> None:
        raise OSError("the disk said no")

    monkeypatch.setattr(world.driver, "unmanage", refuse)
    world.run(wanted.uuid)
    assert ("unmanaging", []) == (world.status(wanted.uuid), world.conductor.failures)


def test_a_volume_stays_where_the_driver_keeps_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its backend says so at once: no time helps."""
    wanted = volume(status="unmanaging", claimed_gb=1)
    world = OneBackend(wanted)
    world.driver.create(wanted)
    monkeypatch.delattr(FakeDriver, "unmanage")
    world.run(wanted.uuid)
    assert ["NotSupported"] == [each["code"] for each in world.conductor.failures]
    assert [wanted.uuid] == list(stored(world.driver))


def test_a_copy_that_is_its_own_source_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The destination is the same pool under another name: the only data are not taken for a failed copy."""
    moving = volume(status="migrating", step="copying", host="m2@store", held_host=HOST, held_pool="p1", claimed_gb=1)
    world = OneBackend(moving)
    world.driver.create(dataclasses.replace(moving, pool="p1"))

    def refuse(_volume: Volume, _pool: str) -> None:
        raise FileExistsError("it is the same pool")

    monkeypatch.setattr(world.driver, "receive", refuse)
    world.run(moving.uuid)
    assert ["FileExistsError"] == [each["code"] for each in world.conductor.failures]
    assert [moving.uuid] == list(stored(world.driver))


def test_a_volume_is_removed() -> None:
    """The ledger deletes it when its backend has removed it."""
    made = volume()
    world = OneBackend(made)
    world.run(made.uuid)
    world.conductor.volumes[made.uuid] = dataclasses.replace(made, status="deleting")
    world.run(made.uuid)
    assert ("deleted", {}) == (world.status(made.uuid), stored(world.driver))


def migrating(**given: Any) -> Volume:
    """A volume of another backend that is to be copied to p1."""
    known = {"host": "m2@store", "pool": "far", "status": "migrating", "step": "copying", "copy_from": "fake"}
    return volume(**{**known, "held_host": HOST, "held_pool": "p1", "size_gb": 3, **given})


def test_a_volume_migrates_here() -> None:
    """Once; what follows is for the backend that it has left."""
    moving = migrating()
    world = OneBackend(moving)
    for _ in range(2):
        world.run(moving.uuid)
    arrived = world.conductor.volumes[moving.uuid]
    assert ("available", "removing", ("m2@store", "far")) == (arrived.status, arrived.step, arrived.acting)
    assert {moving.uuid: ("p1", 3)} == stored(world.driver)


def test_a_volume_migrates_within_a_backend() -> None:
    """One order does both parts."""
    moving = migrating(host=HOST, pool="p0")
    world = OneBackend(moving, fake_pools={"p0": "10", "p1": "10"})
    world.driver.create(dataclasses.replace(moving, step="working"))
    world.run(moving.uuid)
    assert (("available", None), {moving.uuid: ("p1", 3)}) == (
        (world.status(moving.uuid), world.conductor.volumes[moving.uuid].step),
        stored(world.driver),
    )


def test_a_copy_that_fails_is_reported_and_leaves_nothing() -> None:
    """The conductor then tries another backend."""
    moving = migrating()
    world = OneBackend(moving, fake_failures=["p1"])
    world.run(moving.uuid)
    assert (["pool p1 is configured to fail"], {}) == (
        [each["message"] for each in world.conductor.failures],
        stored(world.driver),
    )


def test_a_copy_that_was_given_up_meanwhile_is_removed() -> None:
    """Whether the ledger has the volume elsewhere, or holds the pool until its copy is removed."""
    for given_up in ({"held_host": None, "held_pool": None}, {"status": "available", "step": "removing"}):
        moving = migrating()
        world = OneBackend(moving)
        receive = world.driver.receive

        def late(
            wanted: Volume, pool: str, receive: Any = receive, changed: Any = given_up, world: Any = world
        ) -> None:
            receive(wanted, pool)
            world.conductor.volumes[wanted.uuid] = dataclasses.replace(wanted, **changed)

        world.driver.receive = late  # type: ignore[method-assign]
        world.run(moving.uuid)
        assert {} == stored(world.driver)


def test_after_a_restart_migrations_go_on(caplog: pytest.LogCaptureFixture) -> None:
    """A copy that nobody waits for is removed, unless it is the only one."""
    coming = migrating()
    left, moved = volume("p0", status="available", step=None), volume("p0", status="available", step=None, name="v2")
    world = OneBackend(coming, left, moved, fake_pools={"p0": "10", "p1": "10"})
    for each in (left, dataclasses.replace(left, pool="p1"), dataclasses.replace(moved, pool="p1")):
        world.driver.create(each)
    world.recover()
    assert [coming.uuid] == world.ordered
    assert {left.uuid: ("p0", 1), moved.uuid: ("p1", 1)} == stored(world.driver)
    assert f"Volume {moved.uuid} (v2) is lost: it is not on m1@store#p0" in caplog.text
    assert 1 == caplog.text.count("is lost")


def test_a_volume_that_cannot_be_removed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its space stays claimed; the conductor repeats the order."""
    made = volume(status="deleting")
    world = OneBackend(made)

    def busy(_uuid: str, _pool: str) -> None:
        raise OSError("busy")

    monkeypatch.setattr(world.driver, "delete", busy)
    world.run(made.uuid)
    assert "deleting" == world.status(made.uuid)


def test_a_volume_that_was_given_up_meanwhile_is_removed() -> None:
    """The ledger has it on another backend by the time it is made."""
    made = volume()
    world = OneBackend(made)
    create = world.driver.create

    def late(wanted: Volume) -> None:
        create(wanted)
        world.conductor.volumes[made.uuid] = dataclasses.replace(made, host="m2@store", attempt=2)

    world.driver.create = late  # type: ignore[method-assign]
    world.run(made.uuid)
    assert {} == stored(world.driver)


def test_a_volume_in_error_that_keeps_its_claim_stays() -> None:
    """It took too long: it is removed when its user deletes it."""
    made = volume()
    world = OneBackend(made)
    create = world.driver.create

    def late(wanted: Volume) -> None:
        create(wanted)
        world.conductor.volumes[made.uuid] = dataclasses.replace(made, status="error", step=None)

    world.driver.create = late  # type: ignore[method-assign]
    world.run(made.uuid)
    assert [made.uuid] == list(stored(world.driver))


def test_a_conductor_that_does_not_answer_is_left_to_the_sweeper(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made stays: the repeated order reports it."""
    made = volume()
    world = OneBackend(made)
    with monkeypatch.context() as lost:

        def silent(*_context: Any, **_arguments: Any) -> None:
            raise oslo_messaging.MessagingTimeout("lost")

        lost.setattr(world.conductor, "volume_done", silent)
        world.run(made.uuid)
    assert ("creating", [made.uuid]) == (world.status(made.uuid), list(stored(world.driver)))
    world.run(made.uuid)
    assert "available" == world.status(made.uuid)


def test_after_a_restart_work_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """What was begun is ordered again; what the ledger has deleted is removed; what it does not know stays."""
    begun, there, deleted, unknown = volume(), volume(status="available", step=None), volume(), volume()
    lost = volume(status="available", step=None, name="precious")
    world = OneBackend(begun, there, lost)
    for each in (there, deleted, unknown):
        world.driver.create(each)
    world.conductor.gone = {deleted.uuid}
    world.recover()
    assert [begun.uuid] == world.ordered
    assert {there.uuid, unknown.uuid} == stored(world.driver).keys()
    assert "has 1 volumes that the ledger does not know" in caplog.text
    assert f"Volume {lost.uuid} (precious) is lost: it is not on m1@store#p1" in caplog.text


def test_a_volume_that_cannot_be_read_keeps_no_other_from_its_work(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its row is of another release. It is named, its data stay, and the backend serves."""
    odd, begun = volume(status="available", step=None), volume()
    world = OneBackend(odd, begun)
    world.driver.create(odd)
    answers = world.conductor.get_host_volumes

    def answer(*asked: Any) -> list[dict[str, Any]]:
        return [{**each, "copy_from": {}} if each["uuid"] == odd.uuid else each for each in answers(*asked)]

    monkeypatch.setattr(world.conductor, "get_host_volumes", answer)
    world.recover()
    assert ([begun.uuid], [odd.uuid], "") == (world.ordered, list(stored(world.driver)), world.backend.unready)
    assert f"Volume {odd.uuid} cannot be read, and stays as it is: volume.copy_from" in caplog.text


def of_directory(path: pathlib.Path, ledger: StorageLedger) -> tuple[Backend, Callable[[], None]]:
    """A backend whose pools are directories, and what it does at its start."""
    pools = {"p1": str(path / "p1"), "p2": str(path / "p2")}
    found = backend(DirectoryDriver(options(directory_pools=pools)))
    known = calls(ledger, Patience(GIVEN_UP))
    return found, lambda: recovery.recover(new_context(), found, known, lambda _context, _uuid: None)


@pytest.mark.parametrize("status", ["available", "in-use"])
def test_a_pool_whose_file_system_is_not_mounted_is_not_served(tmp_path: pathlib.Path, status: str) -> None:
    """A volume that is made there would be hidden by the mount. The backend serves as soon as its data are back."""
    kept, other = volume(status=status, step=None, name="precious"), volume("p2", status="available", step=None)
    served, begin = of_directory(tmp_path, StorageLedger(kept, other))
    served.driver.init_backend()
    for each in (kept, other):
        served.driver.create(each)
    (tmp_path / "p1").rename(tmp_path / "away")
    why = f"pool p1 is empty, and the ledger has 1 volumes there, such as {kept.uuid} .precious.: mount its storage"
    with pytest.raises(OSError, match=why):
        begin()
    with pytest.raises(OSError, match=why):
        served.report()
    (tmp_path / "p1").rmdir()
    (tmp_path / "away").rename(tmp_path / "p1")
    begin()
    assert ["p1", "p2"] == [each.pool for each in served.report()]


def test_a_pool_that_lacks_one_of_its_volumes_is_served(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its storage is there; what lacks is named in the log. A pool without volumes in the ledger may be empty."""
    there, lost = volume(status="available", step=None), volume(status="in-use", step=None, name="precious")
    served, begin = of_directory(tmp_path, StorageLedger(there, lost))
    served.driver.init_backend()
    served.driver.create(there)
    begin()
    assert ["p1", "p2"] == [each.pool for each in served.report()]
    assert f"Volume {lost.uuid} (precious) is lost: it is not on m1@store#p1" in caplog.text


def test_what_was_given_up_is_removed_without_a_restart() -> None:
    """What the ledger does not know stays, and so does a volume with work in its queue."""
    there, given_up, unknown, busy = volume(status="available", step=None), volume(), volume(), volume()
    world = OneBackend(there)
    for each in (there, given_up, unknown, busy):
        world.driver.create(each)
    world.conductor.gone = {given_up.uuid, busy.uuid}
    waiting = Waiting()
    queues = WorkQueues(waiting, slots=0)
    queues.submit(busy.uuid, lambda: None)
    recovery.remove_left(new_context(), world.backend, world.calls, queues)
    waiting.run()
    assert {there.uuid, unknown.uuid, busy.uuid} == stored(world.driver).keys()


@pytest.mark.parametrize("when", ["at the start", "later"])
def test_a_volume_is_removed_only_from_the_pool_that_it_was_left_on(when: str) -> None:
    """The ledger has it elsewhere, and on another pool of the backend may be all that there is of it."""
    only, twice = volume("p2"), volume("p1")
    world = OneBackend(fake_pools={"p1": "100", "p2": "100"})
    for each in (only, twice, dataclasses.replace(twice, pool="p2")):
        world.driver.create(each)
    world.conductor.left_on = {only.uuid: ["p1"], twice.uuid: ["p1"]}
    if when == "at the start":
        world.recover()
        assert [True, True] == [world.backend.is_stray(each.uuid) for each in (only, twice)]
    else:
        waiting = Waiting()
        recovery.remove_left(new_context(), world.backend, world.calls, WorkQueues(waiting, slots=0))
        waiting.run()
    left = {(each.uuid, each.pool) for each in world.driver.volumes()}
    assert {(only.uuid, "p2"), (twice.uuid, "p2")} == left


def test_a_volume_that_comes_back_before_it_is_removed_stays() -> None:
    """The ledger is asked again when no other work on the volume runs."""
    made = volume()
    world = OneBackend()
    world.driver.create(made)
    world.conductor.gone = {made.uuid}
    waiting = Waiting()
    recovery.remove_left(new_context(), world.backend, world.calls, WorkQueues(waiting, slots=0))
    world.conductor.gone.clear()
    waiting.run()
    assert {made.uuid} == stored(world.driver).keys()


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


@pytest.mark.parametrize("number", [200, 450])
@pytest.mark.parametrize("gives_parts", [True, False], ids=["a conductor", "an older conductor"])
def test_the_volumes_of_a_backend_are_read_in_parts(gives_parts: bool, number: int) -> None:
    """Each may have 16 KiB of metadata, and the broker carries no larger message than 16 MiB."""
    world = OneBackend(*(volume() for _each in range(number)))
    world.conductor.gives_parts = gives_parts
    world.recover()
    assert sorted(world.conductor.volumes) == sorted(world.ordered)
    assert world.conductor.largest <= 200


def test_a_stray_is_not_allocated() -> None:
    """It is part of what the pool provides, like everything else that is not the fleet's."""
    mine, stray = volume(size_gb=10, status="available", step=None), volume(size_gb=5)
    world = OneBackend(mine)
    for each in (mine, stray):
        world.driver.create(each)
    world.recover()
    (report,) = world.backend.report()
    assert (10, 15) == (
        *(report.capabilities["allocated_capacity_gb"], report.capabilities["provisioned_capacity_gb"]),
    )


def test_a_stray_that_the_ledger_places_here_again_is_counted() -> None:
    """An earlier attempt has made it, and its claim was released before the agent had reported that."""
    made = volume(size_gb=5)
    world = OneBackend()
    world.driver.create(made)
    world.recover()
    world.conductor.volumes[made.uuid] = made
    world.run(made.uuid)
    (report,) = world.backend.report()
    assert ("available", 5) == (world.status(made.uuid), report.capabilities["allocated_capacity_gb"])


@pytest.mark.parametrize("known", [False, True], ids=["unknown", "known to be old"])
def test_a_stray_is_not_taken_for_the_copy_of_a_migration(known: bool) -> None:
    """It may be all that there is of the volume, or old: it is neither the volume nor removed, unless the ledger knows."""
    moving = migrating(old_copy=known)
    world = OneBackend()
    world.driver.create(dataclasses.replace(moving, host=HOST, pool="p1", size_gb=9))
    world.recover()
    world.conductor.volumes[moving.uuid] = moving
    world.run(moving.uuid)
    if known:
        assert ([], ("p1", 3)) == (world.conductor.failures, stored(world.driver)[moving.uuid])
    else:
        (failure,) = world.conductor.failures
        assert "pool p1 has data of this volume that the ledger does not know" in failure["message"]
        assert ("p1", 9) == stored(world.driver)[moving.uuid]
        (report,) = world.backend.report()
        assert 0 == report.capabilities["allocated_capacity_gb"]


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
    world = OneBackend(moving)
    reporter = Reporter(world.conductor, FakePresence(), [world.backend], lambda _name, _why: None)  # type: ignore[arg-type]
    percents = iter([10, 10, 20])
    monkeypatch.setattr(world.driver, "copied_percent", lambda _volume, _pool: next(percents))
    reporter.report_copies()
    with world.backend.copying(moving):
        for _look in range(3):
            reporter.report_copies()
    reporter.report_copies()
    assert [{HOST: {moving.uuid: percent}} for percent in (10, 20)] == world.conductor.copies


def test_a_backend_that_cannot_be_used_is_down(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It sends no heartbeats until it can be used again; the log has one line."""
    world, presence = OneBackend(), FakePresence()
    stopped: list[str] = []
    reporter = Reporter(world.conductor, presence, [world.backend], lambda name, _why: stopped.append(name))  # type: ignore[arg-type]
    reporter.report()
    reporter.heartbeat()
    with monkeypatch.context() as broken:

        def unreadable() -> None:
            raise PermissionError("the directory cannot be written")

        broken.setattr(world.driver, "stats", unreadable)
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
        ({"pool_name": "p#2"}, []),
    ],
)
def test_a_report_that_no_message_can_carry(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, odd: dict[str, Any], known: list[str]
) -> None:
    """It is one line each time, and the other pools are reported. Without a name, the backend stays as it was reported."""
    driver = FakeDriver(options(fake_pools={"p1": "100", "p2": "100"}))
    backend, conductor = Backend(HOST, driver, Policy("store", "z1")), StorageLedger()
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
