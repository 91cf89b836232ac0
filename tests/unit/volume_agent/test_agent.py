# SPDX-License-Identifier: Apache-2.0
"""The agent of several backends: what one of them cannot do harms no other."""

from __future__ import annotations

import pathlib
import threading
import types
from collections.abc import Callable
from concurrent import futures
from typing import Any, cast

import pytest

from fleet import conf as fleet_conf
from fleet import errors
from fleet.agent import commands
from fleet.agent.life import Process
from fleet.agent.patience import Patience
from fleet.agent.work_queues import WorkQueues
from fleet.context import new_context
from fleet.rpc import server as rpc_server
from tests import leftovers
from tests.configuration import configuration
from tests.unit.volume_agent.builders import options, stored, volume
from tests.worlds.one_backend import GIVEN_UP, calls
from tests.worlds.storage_ledger import StorageLedger
from volume_agent import conf as volume_conf
from volume_agent.agent import Intervals, ServedBackend, VolumeAgent
from volume_agent.backends import backend as backends
from volume_agent.backends.backend import Backend, Policy
from volume_agent.drivers.base import VolumeDriver
from volume_agent.drivers.directory import DirectoryDriver
from volume_agent.drivers.fake import FakeDriver
from volume_agent.ledger.reporter import Reporter
from volume_agent.manager import BackendManager
from volume_agent.work.volume import VolumeWorker


class FakeServer:
    def start(self, **_options: int) -> None:
        """The backend has a queue from now on."""

    def stop(self) -> None:
        """It has none any more."""

    def wait(self) -> None:
        """Nothing was received."""


class AgentOf:
    """An agent of the backends ``m1@0``, ``m1@1``, …, one for each driver."""

    def __init__(self, *drivers: VolumeDriver, answer_s: float | None = None) -> None:
        self.conductor = StorageLedger()
        known = calls(self.conductor, Patience(GIVEN_UP))
        policy = Policy("store", "z1")
        made = [Backend(f"m1@{number}", driver, policy, answer_s) for number, driver in enumerate(drivers)]
        executor = futures.ThreadPoolExecutor(1)
        self.entries = []
        for backend in made:
            queues = WorkQueues(executor, slots=0)
            manager = BackendManager(VolumeWorker(backend, known), queues)
            server = cast("rpc_server.Server", FakeServer())
            self.entries.append(ServedBackend(backend.name, server, queues, backend, manager))
        presence: Any = types.SimpleNamespace(answered=lambda: None)
        reporter = Reporter(cast("Any", self.conductor), presence, made, lambda *_superseded: None)
        process = Process(executor, threading.Event(), 1)
        self.agent = VolumeAgent(self.entries, reporter, known, Intervals(60, 60), process)

    def report(self) -> tuple[list[bool], list[str]]:
        """Begin or go on; which backends are served then, and which of them are reported."""
        self.agent._begin()
        return [entry.serving for entry in self.entries], list(self.conductor.pools)


def fake() -> FakeDriver:
    return FakeDriver(options(fake_pools={"p1": "10"}))


@pytest.mark.parametrize(
    "failure",
    [
        ValueError("its list is no JSON"),
        errors.ConfigError(option="san_ip", reason="names no storage"),
        errors.InvalidInput(field="volume.name", reason="must be a text"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_a_backend_whose_driver_fails_is_tried_again(
    failure: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it raises. The others are served, and nothing is placed on this one meanwhile."""
    broken, sound = fake(), fake()
    world = AgentOf(broken, sound)
    with monkeypatch.context() as damaged:

        def fail() -> None:
            raise failure

        damaged.setattr(broken, "init_backend", fail)
        assert ([False, True], ["m1@1"]) == world.report()
        assert "Backend m1@0 cannot be used" in caplog.text
    assert ([True, True], ["m1@0", "m1@1"]) == world.report()


def test_a_driver_that_fails_later_keeps_no_other_backend_from_its_work(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The other backend is compared with the ledger, and its copies are reported."""
    broken, sound = fake(), fake()
    world = AgentOf(broken, sound)
    world.report()
    left = volume(host="m1@1")
    sound.create(left)
    world.conductor.gone.add(left.uuid)

    def fail(*_arguments: object) -> Any:
        raise ValueError("its list is no JSON")

    monkeypatch.setattr(broken, "volumes", fail)
    monkeypatch.setattr(broken, "copied_percent", fail)
    monkeypatch.setattr(sound, "copied_percent", lambda *_volume: 50)
    world.agent._compare()
    assert world.entries[1].queues.wait(60)
    assert "Backend m1@0 is not compared with the ledger now" in caplog.text
    assert {} == stored(sound)
    arriving = [volume(host="m2@0", held_host=f"m1@{number}", held_pool="p1") for number in (0, 1)]
    with world.entries[0].backend.copying(arriving[0]), world.entries[1].backend.copying(arriving[1]):
        world.agent._reporter.report_copies()
    assert [{"m1@1": {arriving[1].uuid: 50}}] == world.conductor.copies


@pytest.mark.parametrize(
    ("call", "purposes"),
    [("init_backend", {"recovery"}), ("volumes", {"report", "comparison"}), ("stats", {"report"})],
)
def test_a_backend_whose_storage_hangs_counts_as_down(
    call: str, purposes: set[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As with a file system that is away: no error comes. The other backends are served, reported and compared."""
    away, sound = fake(), fake()
    world, goes_on = AgentOf(away, sound), threading.Event()
    works, ask = getattr(away, call), world.entries[0].backend.ask

    def hang() -> Any:
        goes_on.wait()
        return works()

    def ask_with_limit(purpose: str, question: Callable[[], Any]) -> Any:
        # A busy machine is no reason to count anything else as hanging.
        backend._answer_s = 0.05 if purpose in purposes and not goes_on.is_set() else None
        return ask(purpose, question)

    if call != "init_backend":
        assert ([True, True], ["m1@0", "m1@1"]) == world.report()
    monkeypatch.setattr(away, call, hang)
    monkeypatch.setattr(world.entries[0].backend, "ask", ask_with_limit)
    backend, work = world.entries[0].backend, world.entries[0].manager._worker
    for _round in range(2):
        assert ["m1@1"] == world.report()[1]
        world.agent._compare()
    assert backend.hangs
    assert "its driver does not answer: its storage hangs" in backend.problem
    made = volume(host="m1@0")
    work.run(new_context(), made.uuid)
    assert f"Volume {made.uuid} is left to the conductor's sweeper: the storage of m1@0 hangs" in caplog.text
    # One thread waits for each purpose.
    assert len(leftovers.begun("driver")) == len(purposes)
    goes_on.set()
    leftovers.join("driver")
    assert ([True, True], ["m1@0", "m1@1"]) == world.report()
    assert not backend.hangs


def test_a_backend_that_another_process_serves_is_not_served_again() -> None:
    """Orders for the other process would come here, too, and be lost: nothing is begun here any more."""
    world = AgentOf(fake(), fake())
    assert ([True, True], ["m1@0", "m1@1"]) == world.report()
    world.agent.superseded("m1@0", "Another process serves it now.")
    assert [False, True] == world.report()[0]


@pytest.mark.parametrize(("second", "taken"), [("vg1", "vg1"), ("vg1/pool", ""), ("vg2", ""), ("vg1/", "vg1")])
def test_two_backends_have_no_volume_group_in_common(monkeypatch: pytest.MonkeyPatch, second: str, taken: str) -> None:
    """Each would remove what the other is making. A thin pool of the group is another place."""
    monkeypatch.setattr(commands, "find", lambda program: program)
    conf = configuration(fleet_conf.register_opts, volume_conf.register_opts, host="m1", enabled_backends=["a", "b"])
    for section, place in (("a", "vg1"), ("b", second)):
        volume_conf.options_of(conf, section)
        conf.set_override("volume_driver", "lvm", section)
        conf.set_override("lvm_pools", {"p": place}, section)
    if taken:
        with pytest.raises(errors.ConfigError, match=f"names m1@a and m1@b, which both have {taken}:"):
            backends.load(conf)
    else:
        assert ["m1@a", "m1@b"] == [each.name for each in backends.load(conf)]


def test_a_backend_that_is_not_served_is_not_reported(tmp_path: pathlib.Path) -> None:
    """It would count as up without a queue, and be chosen again and again."""
    (tmp_path / "p1").mkdir()
    (tmp_path / "p2").symlink_to(tmp_path / "p1")
    same = DirectoryDriver(options(directory_pools={name: str(tmp_path / name) for name in ("p1", "p2")}))
    world = AgentOf(same)
    assert ([False], []) == world.report()
    (tmp_path / "p2").unlink()
    assert ([True], ["m1@0"]) == world.report()
    same.create(made := volume())
    assert [made.uuid] == list(stored(same))
