# SPDX-License-Identifier: Apache-2.0
"""Long commands show their progress and what is left at a timeout, and ask before they destroy."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from fleet import states
from fleet.client import following, pages
from fleet_cli.base.output import plain_output, progress
from tests.clock import Time
from tests.unit.cli import fakes

BOOT = ["boot", "web", "--flavor", "small", "--count", "3", "--wait"]


class Slow(fakes.Conductor):
    """Builds that are under way for so many looks; ``interrupt`` is raised at the first look at them."""

    def __init__(self, looks: int, interrupt: bool = False) -> None:
        super().__init__(lambda request: states.BUILDING)
        self.looks = looks
        self.interrupt = interrupt

    def ask(self, method: str, **arguments: Any) -> Any:
        if method == "list_instances":
            if self.interrupt:
                self.interrupt = False
                raise KeyboardInterrupt
            self.looks -= 1
            for number, each in enumerate(self.instances.values()):
                each["task_state"] = states.PLACING if number else states.SPAWNING
                if self.looks < 0:
                    each.update(vm_state=states.ACTIVE, task_state=None)
        return super().ask(method, **arguments)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_SHORTEST_S", 0)


def test_boot_tells_its_progress(run) -> None:
    """How many of how many, and what the others do; with --quiet nothing."""
    status, _, told = run(Slow(looks=2), *BOOT)
    assert 0 == status
    assert ["0 of 3 builds done: 2 placing, 1 spawning", "3 of 3 builds done"] == told.splitlines()
    assert "" == run(Slow(looks=2), "-q", *BOOT)[2]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_writes_no_control_characters_of_others() -> None:
    """It shows why a host is held up: an agent has written that."""
    terminal = Terminal()
    bar = progress.Progress(2, "hosts", plain_output.PlainStream(terminal))  # type: ignore[arg-type]
    bar.show(1, "web stays: \x1b]0;owned\x07")
    bar.close()
    assert r"web stays: \x1b]0;owned\x07" in terminal.getvalue()
    assert "\x1b]" not in terminal.getvalue()


def test_boot_interrupted(run) -> None:
    """Ctrl-C names the uuids, and says that the builds go on; the exit status is the shell's for it."""
    conductor = Slow(looks=2, interrupt=True)
    status, _, told = run(conductor, *BOOT)
    assert 130 == status
    assert "The builds go on" in told
    assert all(uuid in told for uuid in conductor.instances)
    assert "Traceback" not in told


def test_boot_that_takes_too_long(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Says what each build does, and fails."""
    time, follow = Time(), following.follow
    slow = {"clock": time, "sleep": lambda _seconds: time.sleep(100)}
    monkeypatch.setattr(following, "follow", lambda *args, **more: follow(*args, **more, **slow))
    status, _, told = run(Slow(looks=10), *BOOT)
    assert 1 == status
    assert "After 600 s 3 builds are still under way, and go on:" in told
    assert "web (spawning)" in told


@pytest.mark.parametrize(
    ("typed", "argv", "status", "told"),
    [
        pytest.param("y\n", [], 0, "Delete all 2 instances? [y/N]", id="yes"),
        pytest.param("n\n", [], 1, "nothing is deleted", id="no"),
        pytest.param("\n", [], 1, "nothing is deleted", id="just return"),
        pytest.param(None, [], 1, "this would delete all 2 instances: confirm with --yes", id="nobody to ask"),
        pytest.param(None, ["--yes"], 0, "", id="said beforehand"),
    ],
)
def test_deleting_all_is_asked_about(
    run, monkeypatch: pytest.MonkeyPatch, typed: str | None, argv: list[str], status: int, told: str
) -> None:
    """Only yes is yes."""
    stdin = io.StringIO(typed or "")
    stdin.isatty = lambda: typed is not None  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", stdin)
    conductor = fakes.Conductor()
    conductor.create({"name": "web", "count": 2})
    found, printed, complaints = run(conductor, "server", "delete", "--all", *argv)
    assert (status, True) == (found, told in complaints)
    assert (2 if status else 0) == len(conductor.instances)
    assert ("is being deleted." in printed) == (status == 0)


def test_a_large_fleet_is_deleted(run) -> None:
    """Its instances are listed in parts: no answer could have them all."""
    conductor = fakes.Conductor()
    conductor.create({"name": "web", "count": 3})
    assert 0 == run(conductor, "server", "delete", "--all", "--yes")[0]
    (asked,) = conductor.sent("list_instances")
    assert {"filters": {}, "brief": True, "limit": pages._BRIEF} == asked


@pytest.mark.parametrize(("argv", "what"), [([], "being deleted"), (["--wait"], "deleted")])
def test_deleting_reports(run, argv: list[str], what: str) -> None:
    """Which instances; of many, how many."""
    conductor = fakes.Conductor()
    uuid = conductor.create({"name": "web"})["instances"][0]["uuid"]
    assert f"web ({uuid}) is {what}.\n" == run(conductor, "server", "delete", uuid, *argv)[1]
    conductor.create({"name": "web", "count": 9})
    assert f"9 instances are {what}.\n" == run(conductor, "server", "delete", "--all", "--yes", *argv)[1]
    assert "There are no instances.\n" == run(conductor, "server", "delete", "--all", "--yes", *argv)[1]
