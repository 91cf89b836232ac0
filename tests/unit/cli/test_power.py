# SPDX-License-Identifier: Apache-2.0
"""The calls of ``fleet server stop``, ``start``, ``reboot``, ``suspend`` and ``resume``, and their output."""

from __future__ import annotations

from typing import Any

import pytest

from fleet import errors, states
from tests.unit.cli import fakes

TASKS = {event: task for task, event in reversed(states.POWER_TASKS.items())}
GOOD, BAD = {"result": "success", "message": ""}, {"result": "failed", "message": "the hypervisor said no"}


class Tasks(fakes.Conductor):
    """One instance; a task has ended at the second look, with ``event``, or without one.

    The same task has succeeded once before.
    """

    def __init__(self, word: str, vm_state: str, event: dict[str, Any] | None) -> None:
        super().__init__()
        self.create({"name": "web"})
        (self.instance,) = self.instances.values()
        self.word, self.vm_state, self.event, self.looks = word, vm_state, event, 0

    def ask(self, method: str, **arguments: Any) -> Any:
        if method == "list_instances":
            self.looks += 1
            if self.looks > 1:
                self.instance.update(task_state=None, vm_state=self.vm_state)
        found = super().ask(method, **arguments)
        if method == "show_instance":
            events = [{"event": self.word, "created_at": "2026-01-01T00:00:00", **GOOD}]
            if self.looks > 1 and self.event is not None:
                events += [{"event": self.word, "created_at": "2026-01-01T00:00:09", **self.event}]
            return {**found, "events": events}
        if method.endswith("_instance"):
            self.instance["task_state"] = TASKS[self.word]
            return {key: self.instance[key] for key in ("uuid", "name", "vm_state", "task_state")}
        return found


@pytest.mark.parametrize(
    ("word", "vm_state", "event", "status", "said"),
    [
        pytest.param("stop", "stopped", GOOD, 0, "STOPPED", id="stopped"),
        pytest.param("start", "active", GOOD, 0, "ACTIVE", id="started"),
        pytest.param("reboot", "active", GOOD, 0, "ACTIVE", id="rebooted"),
        pytest.param("suspend", "suspended", GOOD, 0, "SUSPENDED", id="suspended"),
        pytest.param("shelve", "shelved", GOOD, 0, "SHELVED", id="shelved"),
        pytest.param("unshelve", "active", GOOD, 0, "ACTIVE", id="unshelved"),
        pytest.param("resume", "active", GOOD, 0, "ACTIVE", id="resumed"),
        pytest.param("stop", "active", BAD, 1, "ACTIVE: the hypervisor said no", id="it failed"),
        pytest.param("stop", "active", None, 1, "ACTIVE: the task stop was given up", id="the state was reset"),
        pytest.param("reboot", "deleted", None, 1, "DELETED: the task reboot was given up", id="it was deleted"),
        pytest.param(
            "stop",
            "active",
            GOOD,
            1,
            "ACTIVE: it has changed since the end of the task stop",
            id="somebody has started it again",
        ),
    ],
)
def test_waiting_for_the_end(
    run, word: str, vm_state: str, event: dict[str, Any] | None, status: int, said: str
) -> None:
    """The exit status says whether it succeeded, the line why not."""
    conductor = Tasks(word, vm_state, event)
    found, out, _ = run(conductor, "server", word, "web", "--wait")
    assert (status, f"web ({conductor.instance['uuid']}) is {said}") == (found, out.strip())
    assert [{"name": conductor.instance["uuid"]}] == conductor.sent(f"{word}_instance")


def test_a_rebuild(run) -> None:
    """From an image; a new name is for one instance."""
    conductor = Tasks("rebuild", "active", GOOD)
    status, out, _ = run(conductor, "server", "rebuild", "web", "--image", "new", "--name", "db", "--wait")
    assert (0, f"web ({conductor.instance['uuid']}) is ACTIVE") == (status, out.strip())
    asked = {"name": conductor.instance["uuid"], "request": {"image": "new", "changes": {"name": "db"}}}
    assert [asked] == conductor.sent("rebuild_instance")
    status, _, said = run(Tasks("rebuild", "active", GOOD), "server", "rebuild", "web", "db", "--name", "x")
    assert (1, True) == (status, "--name is for a single instance" in said)


def test_a_hard_reboot_of_several(run) -> None:
    """Without --wait the command only sends the requests, one for each instance."""
    conductor = Several()
    status, out, _ = run(conductor, "server", "reboot", "--hard", "web", "db", "web")
    assert [{"name": uuid, "hard": True} for uuid in conductor.uuids("web", "db")] == conductor.sent("reboot_instance")
    assert (0, 2) == (status, out.count(": rebooting"))


class Several(fakes.Conductor):
    """Three instances, which have no task any more when they are looked at. Each look finds one more event."""

    def __init__(self, refused: str = "") -> None:
        super().__init__()
        self.refused = refused
        for name in ("web", "db", "mail"):
            self.create({"name": name})

    def ask(self, method: str, **arguments: Any) -> Any:
        found = super().ask(method, **arguments)
        if method == "show_instance":
            return {**found, "events": [{"event": "reboot", "created_at": f"look {len(self.calls)}", **GOOD}]}
        if method in ("list_instances", "show_host"):
            return found
        instance = self.instance_of(arguments["name"])
        if instance["name"] == self.refused:
            raise errors.Conflict(kind="Instance", name=self.refused, reason="is locked")
        return {**instance, "task_state": states.REBOOTING}

    def uuids(self, *names: str) -> list[str]:
        return [self.instance_of(name)["uuid"] for name in names]


@pytest.mark.parametrize(
    ("options", "said"),
    [pytest.param((), "rebooting", id="sent"), pytest.param(("--wait",), "ACTIVE", id="waited for")],
)
def test_a_refusal_keeps_no_other_from_being_asked(run, options: tuple[str, ...], said: str) -> None:
    """The accepted ones are followed; the exit status and an error name the refused one."""
    conductor = Several(refused="db")
    web, db, mail = conductor.uuids("web", "db", "mail")
    status, out, error = run(conductor, "server", "reboot", "web", "db", "mail", *options)
    assert [{"name": uuid} for uuid in (web, db, mail)] == conductor.sent("reboot_instance")
    assert (1, 2) == (status, out.count(said))
    assert f"refused: 1 of 3: db ({db}): Instance db is locked" in error


def test_a_single_refusal_is_said_as_it_is(run) -> None:
    """No count, and no second name."""
    status, _out, error = run(Several(refused="db"), "server", "reboot", "db", "--wait")
    assert (1, "Instance db is locked") == (status, error.strip())


def test_a_name_that_means_nothing_begins_nothing(run) -> None:
    """All names are resolved before the first request."""
    conductor = Several()
    status, _out, error = run(conductor, "server", "reboot", "web", "nobody")
    assert (1, [], True) == (status, conductor.sent("reboot_instance"), "nobody" in error)
