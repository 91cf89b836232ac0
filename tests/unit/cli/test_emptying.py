# SPDX-License-Identifier: Apache-2.0
"""``fleet host drain --move``: instances leave a host by the moves that there are, and a run takes up what another began."""

from __future__ import annotations

from typing import Any

import oslo_messaging
import pytest

from fleet import errors, move_states, states
from fleet_cli.hosts import emptying
from tests.clock import Time
from tests.unit.cli import fakes

HOST = "h1"
#: What becomes of a move, a status at each look.
RESIZE = [move_states.PREPARING, move_states.POST_MIGRATING, move_states.FINISHED]
EVACUATION = [move_states.PREPARING, move_states.DONE]
LIVE = [move_states.PRE_MIGRATING, move_states.RUNNING, move_states.COMPLETED]
FAILED = [move_states.PREPARING, move_states.ERROR]
STEPS = {"migrate_instance": RESIZE, "evacuate_instance": EVACUATION, "live_migrate_instance": LIVE}


class Host(fakes.Conductor):
    """A host with instances, and the moves away from it; each look at the records takes every move a step on."""

    def __init__(
        self,
        *names: str,
        up: bool = True,
        fails: tuple[str, ...] = (),
        refuses: tuple[str, ...] = (),
        bound: tuple[str, ...] = (),
    ) -> None:
        """:param bound: cannot leave while they run"""
        super().__init__()
        self.there = {name: self.an_instance(name) for name in names}
        self.up, self.fails, self.refuses, self.bound = up, fails, refuses, bound
        self.moves: list[dict[str, Any]] = []
        self.steps: dict[str, list[str]] = {}
        self.most = 0
        self.late: tuple[str, ...] = ()
        self.instead = states.ACTIVE

    def an_instance(self, name: str, vm_state: str = states.ACTIVE) -> dict[str, Any]:
        return {"uuid": f"uuid-{name}", "name": name, "vm_state": vm_state, "task_state": None, "host": HOST}

    def begin(self, uuid: str, steps: list[str], resized: bool = False) -> dict[str, Any]:
        record = {"uuid": f"move-{uuid}", "instance_uuid": uuid, "status": move_states.ACCEPTED, "source_compute": HOST,
                  "dest_compute": None, "resized": resized, "failure": None}  # fmt: skip
        self.moves.append(record)
        self.steps[record["uuid"]] = list(steps)
        return record

    def ask(self, method: str, **arguments: Any) -> Any:
        self.calls.append((method, arguments))
        if method == "list_host_states":
            return {HOST: ["up" if self.up else "down", "enabled"]}
        if method == "list_instances":
            return [dict(each) for each in self.there.values()]
        if method == "list_migrations":
            self._go_on()
            self._offload()
            return [dict(each) for each in self.moves]
        if method == "live_obstacles":
            names = [each.removeprefix("uuid-") for each in arguments["uuids"]]
            return {f"uuid-{name}": "has 1 volume: data" if name in self.bound else "" for name in names}
        if method in STEPS:
            name = arguments["name"].removeprefix("uuid-")
            if name in self.refuses:
                raise errors.Conflict(kind="Instance", name=name, reason="is busy")
            assert method != "live_migrate_instance" or name not in self.bound
            return self.begin(arguments["name"], FAILED if name in self.fails else STEPS[method])
        if method == "shelve_offload_instance":
            name = arguments["name"].removeprefix("uuid-")
            if name in self.refuses:
                raise errors.Conflict(kind="Instance", name=name, reason="cannot leave its host")
            self.there[name]["task_state"] = states.SHELVING_OFFLOADING
            return dict(self.there[name])
        if method == "confirm_resize":
            (record,) = [each for each in self.moves if each["instance_uuid"] == arguments["name"]]
            assert move_states.FINISHED == record["status"]
            self.steps[record["uuid"]] = [move_states.CONFIRMING, move_states.CONFIRMED]
            self._go_on(record)
            return record
        return []

    def _offload(self) -> None:
        """What was offloading has gone, or stays with another state."""
        for name, each in list(self.there.items()):
            if each["task_state"] == states.SHELVING_OFFLOADING and name not in self.late:
                if name in self.fails:
                    each.update(vm_state=self.instead, task_state=None)
                else:
                    del self.there[name]

    def _go_on(self, *records: dict[str, Any]) -> None:
        for each in records or self.moves:
            left = self.steps[each["uuid"]]
            each["status"] = left.pop(0) if left else each["status"]
            if each["status"] in (move_states.FINISHED, move_states.DONE, move_states.COMPLETED):
                self.there.pop(each["instance_uuid"].removeprefix("uuid-"), None)
            if each["status"] == move_states.ERROR:
                each["failure"] = {"message": "No valid host was found. Full."}
        self.most = max(self.most, sum(each["status"] in move_states.UNDER_WAY for each in self.moves))

    def asked(self, method: str) -> list[str]:
        return [arguments["name"] for asked, arguments in self.calls if asked == method]


def empty(
    host: Host, timeout_s: float = 600, at_a_time: int = 2, cold: bool = False
) -> tuple[int, dict[str, str], list[tuple[int, int]]]:
    """How many have gone, what is left, and the progress that was told."""
    told: list[tuple[int, int]] = []
    time = Time()
    run = emptying.Emptying(
        host,
        HOST,
        not host.up,
        at_a_time,
        lambda done, total, _doing: told.append((done, total)),
        cold,
        time,
        time.sleep,
    )  # type: ignore[arg-type]
    result = run.run(timeout_s)
    return result.gone, result.left, told


@pytest.mark.parametrize("arrives", [True, False], ids=["the request arrives", "it does not"])
@pytest.mark.parametrize("cold", [True, False])
def test_no_conductor_answers_for_a_while(arrives: bool, cold: bool) -> None:
    """It is waited for. A move is asked for once: whether it has begun is seen at the next look."""

    class Restarting(Host):
        def ask(self, method: str, **arguments: Any) -> Any:
            asked = [each for each, _arguments in self.calls].count(method)
            if method in ("list_migrations", "confirm_resize") and asked == 1:
                self.calls.append((method, arguments))
                raise oslo_messaging.MessageDeliveryFailure()
            if method in STEPS and asked == 0:
                if arrives:
                    super().ask(method, **arguments)
                else:
                    self.calls.append((method, arguments))
                raise oslo_messaging.MessagingTimeout()
            return super().ask(method, **arguments)

    host = Restarting("a", "b", "c", bound=("a", "b", "c") if cold else ())
    gone, left, _told = empty(host, cold=cold)
    asked = host.asked("migrate_instance" if cold else "live_migrate_instance")
    assert ["uuid-a", "uuid-b", "uuid-c"] == sorted(asked)
    if arrives:
        assert (3, {}) == (gone, left)
    else:
        said = "a stays, or its move has begun: no conductor answers when it was asked for"
        assert (2, {"uuid-a": said}) == (gone, left)


def test_a_host_that_is_up() -> None:
    """Its instances are moved while they run, a few at a time."""
    host = Host("a", "b", "c")
    gone, left, told = empty(host)
    assert (3, {}) == (gone, left)
    assert {move_states.COMPLETED} == {each["status"] for each in host.moves}
    assert ["uuid-a", "uuid-b", "uuid-c"] == host.asked("live_migrate_instance")
    assert 2 == host.most
    assert ((0, 3), (3, 3)) == (told[0], told[-1])
    assert sorted(told) == told


def test_guests_that_cannot_move_while_they_run() -> None:
    """They stay, with the reason; the others go."""
    host = Host("a", "b", bound=("a",))
    assert (1, {"uuid-a": "a has 1 volume: data: --cold moves it switched off"}) == empty(host)[:2]
    assert ([], ["uuid-b"]) == (host.asked("migrate_instance"), host.asked("live_migrate_instance"))


def test_cold_where_it_must_be() -> None:
    """With --cold they are switched off, and each move is confirmed: the host keeps nothing for them."""
    host = Host("a", "b", "c", bound=("a", "c"))
    assert (3, {}) == empty(host, cold=True)[:2]
    assert ["uuid-a", "uuid-c"] == host.asked("migrate_instance") == host.asked("confirm_resize")
    assert ["uuid-b"] == host.asked("live_migrate_instance")


def test_while_conductors_are_old() -> None:
    """Nobody can say which guests can move live, so none is moved in a way that nobody has chosen."""

    class OldHost(Host):
        def ask(self, method: str, **arguments: Any) -> Any:
            if method == "live_obstacles":
                raise errors.VersionPinned(topic="conductor", method=method, needs="1.19", cap="1.18", pin="auto")
            return super().ask(method, **arguments)

    gone, left, _ = empty(OldHost("a"))
    assert (0, True) == (gone, "is not known to be movable while it runs" in left["uuid-a"])
    assert (1, {}) == empty(OldHost("a"), cold=True)[:2]


def test_a_host_that_is_down() -> None:
    """Its instances are evacuated."""
    host = Host("a", "b", up=False)
    assert (2, {}) == empty(host)[:2]
    assert ["uuid-a", "uuid-b"] == host.asked("evacuate_instance")
    assert [] == host.asked("confirm_resize")


class Changing(Host):
    """A host whose agent falls silent, or comes back, at the fourth time that the command reads its state."""

    looks = 0

    def ask(self, method: str, **arguments: Any) -> Any:
        if method == "list_host_states":
            self.looks += 1
            if self.looks == 4:
                self.up = not self.up
        return super().ask(method, **arguments)


def test_a_host_that_falls_silent_in_the_middle(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its guests may still run: none is rebuilt, no further one is moved, and the command says what to do."""
    monkeypatch.setattr(emptying, "_PAUSE_S", 0)
    host = Changing("a", "b", "c", "d", "e")
    host.there["off"] = host.an_instance("off", states.STOPPED)
    status, printed, told = run(host, "host", "drain", HOST, "--move", "--at-a-time", "2")
    assert (1, "5 instances to move live") == (status, printed.splitlines()[1])
    assert ([], ["uuid-a", "uuid-b"]) == (host.asked("evacuate_instance"), host.asked("live_migrate_instance"))
    assert (
        "The agent of h1 has become silent, so nothing more was begun. When it is up again, run the same command"
        in told
    )
    for line in ("uuid-c: is not begun", "uuid-a: is on the move", "uuid-off: off is STOPPED"):
        assert line in told


def test_a_host_that_comes_back_in_the_middle(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its instances were to be evacuated: the others stay, until the command is run again."""
    monkeypatch.setattr(emptying, "_PAUSE_S", 0)
    host = Changing("a", "b", "c", up=False)
    status, printed, told = run(host, "host", "drain", HOST, "--move", "--at-a-time", "1")
    assert (1, "h1 is down: 3 instances will be rebuilt on other hosts (evacuated)") == (
        status,
        printed.splitlines()[1],
    )
    assert ([], ["uuid-a"]) == (host.asked("live_migrate_instance"), host.asked("evacuate_instance"))
    assert "h1 is up again, so nothing more was evacuated." in told


def test_a_host_that_falls_silent_when_all_moves_are_begun(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are followed to their ends."""
    monkeypatch.setattr(emptying, "_PAUSE_S", 0)
    assert 0 == run(Changing("a", "b"), "host", "drain", HOST, "--move")[0]


@pytest.mark.parametrize("up", [True, False])
def test_stopped_instances_are_evacuated_but_not_migrated(up: bool) -> None:
    host = Host("a", up=up)
    host.there["a"]["vm_state"] = states.STOPPED
    assert ((0, {"uuid-a": "a is STOPPED"}) if up else (1, {})) == empty(host)[:2]


def test_a_look_reads_the_host_once() -> None:
    """However many stopped instances are on it: each answer has all instances of the host."""
    host = Host(*(f"vm{number}" for number in range(20)))
    for each in host.there.values():
        each["vm_state"] = states.STOPPED
    assert 20 == len(empty(host)[1])
    looks = [method for method, _arguments in host.calls]
    assert looks.count("list_migrations") == looks.count("list_instances")


def test_shelved_instances_are_offloaded() -> None:
    """On a host that is up. One whose disk has no other place stays, and so does one that is unshelved meanwhile."""
    host = Host("a", "b", "c", refuses=("b",), fails=("c",))
    for each in host.there.values():
        each["vm_state"] = states.SHELVED
    host.there["d"] = host.an_instance("d")
    gone, left, _ = empty(host)
    assert (2, {"uuid-b": "Instance b cannot leave its host", "uuid-c": "c stays: it was unshelved"}) == (gone, left)
    assert ["uuid-a", "uuid-b", "uuid-c"] == host.asked("shelve_offload_instance")
    assert ["uuid-d"] == host.asked("live_migrate_instance")


def test_an_offload_without_effect() -> None:
    host = Host("a", fails=("a",))
    host.instead = host.there["a"]["vm_state"] = states.SHELVED
    assert (0, {"uuid-a": "a stays: it was shelved again"}) == empty(host)[:2]


def test_an_offload_that_is_late() -> None:
    host = Host("a")
    host.late = ("a",)
    host.there["a"].update(vm_state=states.SHELVED, task_state=states.SHELVING_OFFLOADING)
    assert (0, {"uuid-a": "is shelving_offloading"}) == empty(host, timeout_s=5)[:2]
    assert [] == host.asked("shelve_offload_instance")


def test_shelved_instances_of_a_host_that_is_down() -> None:
    """They are evacuated, as stopped ones are."""
    host = Host("a", up=False)
    host.there["a"]["vm_state"] = states.SHELVED
    assert (1, {}) == empty(host)[:2]
    assert (["uuid-a"], []) == (host.asked("evacuate_instance"), host.asked("shelve_offload_instance"))


def test_what_cannot_go_is_named() -> None:
    """Each with its reason, and is tried once; the others go."""
    host = Host("a", "b", "c", fails=("a",), refuses=("b",))
    host.there["d"] = host.an_instance("d", states.ERROR)
    gone, left, _ = empty(host)
    assert 1 == gone
    assert {
        "uuid-a": "a stays: No valid host was found. Full.",
        "uuid-b": "Instance b is busy",
        "uuid-d": "d is ERROR",
    } == left
    assert ["uuid-a", "uuid-b", "uuid-c"] == host.asked("live_migrate_instance")


def test_a_run_takes_up_what_another_began() -> None:
    """Moves that are under way are waited for, one that has finished is confirmed; a resize is its owner's to decide."""
    host = Host("a", "b")
    host.begin("uuid-a", RESIZE)
    host.there["gone"] = host.an_instance("gone")
    host.begin("uuid-gone", RESIZE[-1:])
    host.begin("uuid-larger", RESIZE[-1:], resized=True)
    gone, left, _ = empty(host)
    assert (3, {"uuid-larger": "its resize waits to be confirmed or reverted"}) == (gone, left)
    assert ["uuid-b"] == host.asked("live_migrate_instance")
    assert ["uuid-gone", "uuid-a"] == host.asked("confirm_resize")


def test_what_is_late_is_named() -> None:
    """A move that does not end is left to go on."""
    host = Host("a", "b")
    host.begin("uuid-a", [move_states.PREPARING] * 1000)
    gone, left, _ = empty(host, timeout_s=5, at_a_time=1)
    assert (0, {"uuid-a": "is on the move (preparing)", "uuid-b": "is not begun"}) == (gone, left)


def test_the_ways_are_told_before_anything_moves(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --cold, and without."""
    monkeypatch.setattr(emptying, "_PAUSE_S", 0)
    status, printed, _ = run(Host("a", "b", bound=("b",)), "host", "drain", HOST, "--move")
    assert (1, True) == (status, "1 instance to move live\nb stays: it has 1 volume: data\n" in printed)
    status, printed, _ = run(Host("a", "b", bound=("b",)), "host", "drain", HOST, "--move", "--cold")
    assert (0, True) == (status, "b moves switched off: it has 1 volume: data\n2 instances have left" in printed)


def test_each_of_several_guests_with_one_name_is_told(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """One goes live, and does not hide that the other one is switched off."""
    monkeypatch.setattr(emptying, "_PAUSE_S", 0)
    host = Host("a", "b", "c", bound=("a",))
    for each in host.there.values():
        each["name"] = "web"
    status, printed, _ = run(host, "host", "drain", HOST, "--move", "--cold")
    told = "2 instances to move live\nweb moves switched off: it has 1 volume: data\n3 instances have left"
    assert (0, True) == (status, told in printed)


@pytest.mark.parametrize(("fails", "status"), [((), 0), (("a",), 1)])
def test_the_command(run, monkeypatch: pytest.MonkeyPatch, fails: tuple[str, ...], status: int) -> None:
    """It disables the host, moves its instances, prints the result, and shows progress on stderr."""
    monkeypatch.setattr(emptying, "_PAUSE_S", 0)
    host = Host("a", "b", fails=fails)
    found, printed, told = run(host, "host", "drain", HOST, "--move")
    assert status == found
    assert printed.startswith("h1 is disabled: draining\n")
    assert ("1 instance has left h1" if fails else "2 instances have left h1") in printed
    assert f"{2 - len(fails)} of 2 moves done" in told
    assert ("a stays: No valid host was found. Full." in told) == bool(fails)
