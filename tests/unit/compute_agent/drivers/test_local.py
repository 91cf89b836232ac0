# SPDX-License-Identifier: Apache-2.0
"""Tests of real guest processes on this machine."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import pwd
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compute_agent.drivers import local
from compute_agent.drivers.base import SpawnFailed
from compute_agent.drivers.local import LocalDriver
from compute_agent.guest.process import Identity
from fleet import errors, states
from fleet.agent import time_limit
from fleet.objects import Image, Instance
from tests.unit.compute_agent import builders

HOST = "machine"
LIMIT_S = 10.0


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether ``condition`` becomes true in time; real processes have no clock to move."""
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Machine:
    """A driver on a directory of its own; ``restart`` is a new agent on the same machine."""

    def __init__(self, path: pathlib.Path, **options: Any) -> None:
        self.root = path / "local" / HOST
        self._conf = builders.a_conf(instances_path=str(path), local={"destroy_timeout": 2, **options})
        self.driver = self.restart()

    def restart(self) -> LocalDriver:
        self.driver = LocalDriver(self._conf)
        self.driver.init_host(HOST)
        return self.driver

    def spawn(self, **values: Any) -> Instance:
        instance = builders.an_instance(node=HOST, **values)
        self.driver.spawn(builders.a_context(), instance, Image())
        return instance

    def destroy(self, uuid: str) -> None:
        self.driver.destroy(builders.a_context(), uuid)

    def process(self, uuid: str, name: str) -> Identity:
        """The supervisor or the child of a guest."""
        state = json.loads((self.root / uuid / "supervisor.json").read_text())
        identity = Identity.from_dict(state[name])
        assert identity is not None
        return identity


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    for uuid in machine.driver.list_instance_uuids():
        machine.destroy(uuid)


def test_a_guest_is_a_process_with_its_limits(machine: Machine) -> None:
    """The command runs with the flavor's memory as its limit, and its record tells its size and attempt."""
    instance = machine.spawn(flavor=builders.a_flavor(memory_mb=100), attempt=2)
    child = machine.process(instance.uuid, "child")
    assert states.RUNNING == machine.driver.get_info(instance.uuid).state
    assert (100 * 2**20, 100 * 2**20) == resource.prlimit(child.pid, resource.RLIMIT_AS)
    assert {"uuid": instance.uuid, "memory_mb": 100, "node": HOST, "attempt": 2} == (
        machine.driver.get_per_instance_usage()[instance.uuid]
    )


def test_destroy_ends_all_processes_and_may_be_repeated(machine: Machine) -> None:
    """Nothing runs and nothing is left on disk; a second time is a success."""
    uuid = machine.spawn().uuid
    processes = [machine.process(uuid, name) for name in ("supervisor", "child")]
    machine.destroy(uuid)
    assert [False, False] == [process.alive() for process in processes]
    assert [] == list(machine.root.iterdir())
    machine.destroy(uuid)


def test_a_guest_survives_its_agent(machine: Machine) -> None:
    """A new agent finds the guest, and can destroy a guest that it did not start."""
    uuid = machine.spawn().uuid
    child = machine.process(uuid, "child")
    first = machine.driver
    machine.restart()
    assert [uuid] == machine.driver.list_instance_uuids()
    assert child.alive()
    machine.destroy(uuid)
    assert not child.alive()
    first.destroy(builders.a_context(), uuid)


def test_the_supervisor_starts_a_dead_guest_again(machine: Machine) -> None:
    """A guest that is killed comes back as another process."""
    uuid = machine.spawn().uuid
    dead = machine.process(uuid, "child")
    assert dead.send(signal.SIGKILL)
    assert eventually(lambda: machine.process(uuid, "child") != dead)
    assert states.RUNNING == machine.driver.get_info(uuid).state


def test_a_guest_whose_processes_were_killed_is_started_again(machine: Machine) -> None:
    """Without its supervisor nothing starts it by itself: its state is CRASHED until the agent does."""
    instance = machine.spawn()
    for name in ("supervisor", "child"):
        process = machine.process(instance.uuid, name)
        assert process.send(signal.SIGKILL)
        assert eventually(lambda process=process: not process.alive())
    assert states.CRASHED == machine.driver.get_info(instance.uuid).state
    for _twice in range(2):
        machine.driver.power_on(builders.a_context(), instance)
        assert states.RUNNING == machine.driver.get_info(instance.uuid).state
    machine.destroy(instance.uuid)


def test_a_guest_that_is_renamed_meanwhile_is_not_started_anew(machine: Machine) -> None:
    """The answer to the report of its start was lost, so the start is repeated."""
    instance = machine.spawn()
    child = machine.process(instance.uuid, "child")
    machine.driver.power_on(builders.a_context(), dataclasses.replace(instance, name="another name"))
    assert child == machine.process(instance.uuid, "child")


def test_a_guest_of_which_nothing_is_left_cannot_be_started(machine: Machine) -> None:
    """No other takes its place: its data would not be there."""
    instance = builders.an_instance(node=HOST)
    with pytest.raises(errors.NotFound):
        machine.driver.power_on(builders.a_context(), instance)
    assert [] == machine.driver.list_instance_uuids()


def test_a_guest_without_supervisor_is_destroyed_all_the_same(machine: Machine) -> None:
    """The guest's own process is on record for the day its supervisor is killed."""
    uuid = machine.spawn().uuid
    supervisor, child = machine.process(uuid, "supervisor"), machine.process(uuid, "child")
    assert supervisor.send(signal.SIGKILL)
    assert eventually(lambda: not supervisor.alive())
    machine.destroy(uuid)
    assert eventually(lambda: not child.alive())


def test_a_guest_that_will_not_end_is_killed(tmp_path: pathlib.Path) -> None:
    """Asked first, killed after destroy_timeout."""
    stubborn = [sys.executable, "-S", "-c", "import signal; signal.signal(15, signal.SIG_IGN); signal.pause()"]
    machine = Machine(tmp_path, guest_command=stubborn, destroy_timeout=1, limit_memory=False)
    uuid = machine.spawn().uuid
    child = machine.process(uuid, "child")
    machine.destroy(uuid)
    assert not child.alive()


def test_half_destroyed_guests_are_ended_at_start(machine: Machine) -> None:
    """An agent that died while it destroyed a guest goes on with it when it is back."""
    uuid = machine.spawn().uuid
    child = machine.process(uuid, "child")
    (machine.root / uuid).rename(machine.root / f"destroyed-{uuid}")
    first = machine.driver
    machine.restart()
    assert not child.alive()
    assert [] == list(machine.root.iterdir())
    first._started.pop(uuid).wait(LIMIT_S)


def test_a_destroy_that_failed_is_repeated(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not a success before the processes have ended and the files are gone, and no later guest is in its way."""
    instance = machine.spawn()
    child = machine.process(instance.uuid, "child")

    def fail(_driver: LocalDriver, _directory: pathlib.Path, _hard: bool = False) -> None:
        raise OSError("Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(LocalDriver, "_stop", fail)
        for _twice in range(2):
            with pytest.raises(OSError, match="Input/output error"):
                machine.destroy(instance.uuid)
            assert [instance.uuid] == machine.driver.list_instance_uuids()
    machine.driver.spawn(builders.a_context(), instance, Image())
    machine.destroy(instance.uuid)
    assert (False, []) == (child.alive(), list(machine.root.iterdir()))


def test_a_command_that_cannot_run_fails_the_spawn(tmp_path: pathlib.Path) -> None:
    """The reason is told, and nothing is left."""
    machine = Machine(tmp_path, guest_command=["/no/such/program"])
    with pytest.raises(SpawnFailed) as failed:
        machine.spawn()
    assert "cannot run /no/such/program: No such file or directory" == str(failed.value)
    assert [] == machine.driver.list_instance_uuids()


def test_a_guest_is_not_spawned_twice(machine: Machine) -> None:
    """The second spawn fails and leaves the first guest alone."""
    instance = machine.spawn()
    with pytest.raises(SpawnFailed):
        machine.driver.spawn(builders.a_context(), instance, Image())
    assert states.RUNNING == machine.driver.get_info(instance.uuid).state


def test_a_spawn_that_was_killed_leaves_no_obstacle(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next spawn of the instance succeeds, in the same process and in the next one."""

    class Killed(BaseException):
        pass

    def die(*_arguments: object) -> None:
        raise Killed

    instance = builders.an_instance(node=HOST)
    with monkeypatch.context() as patched:
        patched.setattr("compute_agent.guest.state_file.write", die)
        # A process that is killed undoes nothing.
        patched.setattr(machine.driver, "destroy", lambda *_arguments: None)
        patched.setattr("shutil.rmtree", lambda *_arguments, **_more: None)
        with pytest.raises(Killed):
            machine.driver.spawn(builders.a_context(), instance, Image())
    machine.driver.spawn(builders.a_context(), instance, Image())
    assert states.RUNNING == machine.driver.get_info(instance.uuid).state
    machine.restart()
    assert [instance.uuid] == [path.name for path in machine.root.iterdir()]


def test_a_directory_that_an_older_release_has_left_empty_is_no_guest(machine: Machine) -> None:
    instance = builders.an_instance(node=HOST)
    (machine.root / instance.uuid).mkdir()
    machine.driver.spawn(builders.a_context(), instance, Image())
    assert states.RUNNING == machine.driver.get_info(instance.uuid).state


def test_a_later_guest_survives_a_spawn_that_was_abandoned(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one hangs before its directory is there, and is cleaned up meanwhile."""
    first = builders.an_instance(node=HOST, attempt=1)
    hangs, goes_on, ended = threading.Event(), threading.Event(), threading.Event()
    order = machine.driver._order

    def slow(instance: Instance) -> dict[str, Any]:
        if instance.attempt == 1:
            hangs.set()
            goes_on.wait()
        return order(instance)

    def spawn() -> None:
        try:
            machine.driver.spawn(builders.a_context(), first, Image())
        finally:
            ended.set()

    monkeypatch.setattr(machine.driver, "_order", slow)
    monkeypatch.setattr(time_limit.futures, "wait", lambda *_limits: hangs.wait())
    with pytest.raises(time_limit.Overrun):
        time_limit.run_within(builders.a_context(), 1, spawn)
    machine.destroy(first.uuid)
    machine.driver.spawn(builders.a_context(), dataclasses.replace(first, attempt=2), Image())
    goes_on.set()
    ended.wait()
    assert {first.uuid: 2} == {uuid: each["attempt"] for uuid, each in machine.driver.get_per_instance_usage().items()}
    machine.destroy(first.uuid)


def test_an_unknown_guest_has_no_info(machine: Machine) -> None:
    """Asking about what is not here is an error."""
    with pytest.raises(errors.NotFound):
        machine.driver.get_info(builders.an_instance().uuid)


def test_a_recycled_pid_is_another_process() -> None:
    """The same pid with another start time, or of another boot, is not alive and gets no signal."""
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        real = Identity.of(sleeper.pid)
        assert real is not None
        assert real.alive()
        strangers = [
            Identity(real.pid, real.start_ticks + 1, real.boot_id),
            Identity(real.pid, real.start_ticks, "another boot"),
        ]
        assert [False, False] == [stranger.alive() for stranger in strangers]
        assert [False, False] == [stranger.send(signal.SIGKILL) for stranger in strangers]
        assert real.alive()
    finally:
        sleeper.kill()
        sleeper.wait()
    assert not real.alive()
    assert real.wait(0)


def test_the_inventory_is_this_machine(machine: Machine) -> None:
    """CPUs, memory and disk as the kernel tells them, less the disk that guests were promised."""
    before = machine.driver.get_available_resource(HOST)
    machine.spawn(flavor=builders.a_flavor(root_gb=3, ephemeral_gb=2))
    after = machine.driver.get_available_resource(HOST)
    assert before is not None
    assert after is not None
    assert os.cpu_count() == after["vcpus"]
    assert after["memory_mb"] > 0
    assert after["local_gb"] == before["local_gb"]
    # The file system is not ours alone: one GB of slack.
    assert abs(before["disk_available_least"] - 5 - after["disk_available_least"]) <= 1


def test_a_guest_is_switched_off_and_started_again_with_another_flavor(machine: Machine) -> None:
    """Off it keeps its directory and says so, also to the next agent; it comes back with the new sizes, or the old."""
    context, instance = builders.a_context(), machine.spawn()
    child = machine.process(instance.uuid, "child")
    for _twice in range(2):
        machine.driver.migrate_disk_and_power_off(context, instance, HOST, instance.flavor)
    assert not child.alive()
    driver = machine.restart()
    assert states.SHUTDOWN == driver.get_info(instance.uuid).state
    assert driver.get_per_instance_usage()[instance.uuid]["switched_off"]

    larger = dataclasses.replace(instance, flavor=builders.a_flavor(memory_mb=1024))
    for _twice in range(2):
        driver.finish_migration(context, larger, Image())
    assert (states.RUNNING, 1024 * 1024) == (
        driver.get_info(instance.uuid).state,
        driver.get_info(instance.uuid).max_mem_kb,
    )

    driver.migrate_disk_and_power_off(context, larger, HOST, instance.flavor)
    driver.finish_revert_migration(context, instance)
    info = driver.get_info(instance.uuid)
    assert (states.RUNNING, 512 * 1024) == (info.state, info.max_mem_kb)
    with pytest.raises(errors.NotFound):
        driver.finish_revert_migration(context, builders.an_instance(node=HOST))


def _environment(machine: Machine, uuid: str) -> dict[str, str]:
    raw = pathlib.Path(f"/proc/{machine.process(uuid, 'child').pid}/environ").read_bytes()
    return dict(each.split("=", 1) for each in raw.decode().split("\0") if each)


def test_a_guest_inherits_nothing_of_the_agent_s(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither systemd's socket nor credentials; it has what it needs to run a program."""
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "OS_PASSWORD", "http_proxy"):
        monkeypatch.setenv(name, "the agent's")
    machine = Machine(tmp_path)
    instance = machine.spawn()
    try:
        found = _environment(machine, instance.uuid)
    finally:
        machine.destroy(instance.uuid)
    assert {"PATH", "LANG", "HOME", "FLEET_INSTANCE_UUID", "FLEET_VCPUS", "FLEET_MEMORY_MB"} == set(found)
    assert str(machine.root / instance.uuid) == found["HOME"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a process as another user")
def test_a_guest_runs_as_the_user_that_the_option_names(tmp_path: pathlib.Path) -> None:
    """With that user's groups, in a directory of its own; the order is not its to change."""
    known = pwd.getpwnam("nobody")
    machine = Machine(tmp_path, guest_user="nobody")
    instance = machine.spawn()
    try:
        child = machine.process(instance.uuid, "child").pid
        status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{child}/status").read_text().splitlines())
        home = pathlib.Path(f"/proc/{child}/cwd").readlink()
        owner = (machine.root / instance.uuid).stat().st_uid
    finally:
        machine.destroy(instance.uuid)
    assert [str(known.pw_uid)] * 4 == status["Uid"].split()
    assert (machine.root / instance.uuid / "home", os.geteuid()) == (home, owner)


def test_an_unknown_user_is_refused(tmp_path: pathlib.Path) -> None:
    """Before anything is served."""
    with pytest.raises(errors.ConfigError, match=r"\[local\] guest_user is nobody-knows, and there is no such user"):
        Machine(tmp_path, guest_user="nobody-knows")


def test_guests_have_a_cgroup_of_their_own_where_systemd_runs(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a scope beside the agent's unit, whose end is not theirs."""
    monkeypatch.setattr(local, "_SYSTEMD", tmp_path / "absent")
    assert [] == local.scope_command("u1")
    monkeypatch.setattr(local, "_SYSTEMD", tmp_path)
    monkeypatch.setattr(local.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(local.os, "geteuid", lambda: 0)
    found = local.scope_command("u1")
    assert ["/usr/bin/systemd-run", "--scope", "--quiet", "--collect", "--slice=fleet-guests"] == found[:5]
    assert (True, "--") == (found[5].startswith("--unit=fleet-guest-u1-"), found[-1])
    monkeypatch.setattr(local.os, "geteuid", lambda: 1000)
    assert [] == local.scope_command("u1")


def test_a_stopped_guest_stays_off_after_a_restart_of_the_agent(machine: Machine) -> None:
    """Its directory stays, and nothing marks it as switched off for a move. It can be started again."""
    instance = machine.spawn()
    processes = [machine.process(instance.uuid, name) for name in ("supervisor", "child")]
    for _twice in range(2):
        machine.driver.power_off(builders.a_context(), instance)
    assert [False, False] == [process.alive() for process in processes]
    machine.restart()
    assert states.SHUTDOWN == machine.driver.get_info(instance.uuid).state
    assert "switched_off" not in machine.driver.get_per_instance_usage()[instance.uuid]
    machine.driver.power_on(builders.a_context(), instance)
    assert states.RUNNING == machine.driver.get_info(instance.uuid).state


def test_a_suspended_guest_keeps_its_process(tmp_path: pathlib.Path) -> None:
    """Also over a restart of the agent; resumed, it is the same process. A suspended guest ends as fast as any."""
    machine = Machine(tmp_path, destroy_timeout=3600)
    instance, context = machine.spawn(), builders.a_context()
    child = machine.process(instance.uuid, "child")
    for _twice in range(2):
        machine.driver.suspend(context, instance)
        assert eventually(lambda: machine.driver.get_info(instance.uuid).state == states.SUSPENDED)
    again = Machine(tmp_path, destroy_timeout=3600)
    assert states.SUSPENDED == again.driver.get_info(instance.uuid).state
    for _twice in range(2):
        again.driver.resume(context, instance)
        assert eventually(lambda: again.driver.get_info(instance.uuid).state == states.RUNNING)
    assert child == again.process(instance.uuid, "child")
    again.driver.suspend(context, instance)
    again.driver.power_off(context, instance)
    assert not child.alive()
    with pytest.raises(SpawnFailed, match="does not run"):
        again.driver.suspend(context, instance)
    again.driver.resume(context, instance)
    assert states.RUNNING == again.driver.get_info(instance.uuid).state
    again.driver.suspend(context, instance)
    again.destroy(instance.uuid)
    machine.driver.cleanup_host("host1")


#: A guest that does not end when it is asked to. It says so once its handler is there.
DEAF = "trap '' TERM; touch deaf; while :; do sleep 1; done"


def test_a_rebuild_leaves_nothing_of_the_guest(machine: Machine) -> None:
    """Its directory is new. It may be repeated, and the guest may be gone."""
    instance = machine.spawn()
    directory = machine.driver._directory(instance.uuid)
    (directory / "note").write_text("mine")
    for _twice in range(2):
        machine.driver.rebuild(builders.a_context(), instance, instance.image)
        assert (False, states.RUNNING) == ((directory / "note").exists(), machine.driver.get_info(instance.uuid).state)
    machine.driver.destroy(builders.a_context(), instance.uuid)
    machine.driver.rebuild(builders.a_context(), instance, instance.image)
    assert states.RUNNING == machine.driver.get_info(instance.uuid).state


@pytest.mark.parametrize("hard", [False, True])
def test_a_reboot_is_another_process(machine: Machine, hard: bool) -> None:
    """Also if the guest was off."""
    instance = machine.spawn()
    before = machine.process(instance.uuid, "child")
    machine.driver.reboot(builders.a_context(), instance, hard)
    after = machine.process(instance.uuid, "child")
    assert (False, True) == (before.alive(), after.alive())
    machine.driver.power_off(builders.a_context(), instance)
    machine.driver.reboot(builders.a_context(), instance, hard)
    assert states.RUNNING == machine.driver.get_info(instance.uuid).state


def test_a_hard_reboot_does_not_ask(tmp_path: pathlib.Path) -> None:
    """A guest that ignores the request to end is killed at once, not after destroy_timeout."""
    machine = Machine(tmp_path, guest_command=["/bin/sh", "-c", DEAF], destroy_timeout=3600)
    instance = machine.spawn()
    assert eventually((machine.root / instance.uuid / "deaf").exists)
    before = machine.process(instance.uuid, "child")
    machine.driver.reboot(builders.a_context(), instance, hard=True)
    assert (False, states.RUNNING) == (before.alive(), machine.driver.get_info(instance.uuid).state)
    for name in ("supervisor", "child"):
        machine.process(instance.uuid, name).kill_group()
    machine.destroy(instance.uuid)


def test_the_console_is_what_the_command_prints(machine: Machine, tmp_path: pathlib.Path) -> None:
    """The end of it; a guest that is not there has none."""
    context, talker = (
        builders.a_context(),
        Machine(tmp_path / "talker", guest_command=["sh", "-c", "echo hello; sleep 60"]),
    )
    uuid = talker.spawn().uuid
    assert eventually(lambda: b"hello" in talker.driver.get_console_output(context, uuid, 1000))
    assert b"lo\n" == talker.driver.get_console_output(context, uuid, 3)
    talker.destroy(uuid)
    with pytest.raises(errors.NotFound):
        talker.driver.get_console_output(context, uuid, 1000)
