# SPDX-License-Identifier: Apache-2.0
"""``fleet replay --sample`` asks before it creates instances on a fleet, and leaves nothing behind."""

from __future__ import annotations

import io
import json
import pathlib
from typing import Any

import pytest

from fleet import states
from fleet_trial.replaying import replay
from tests.unit.cli import fakes
from tests.unit.cli.test_replay import written


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "yess\n"])
def test_only_a_yes_is_a_yes(run, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    """Otherwise nothing is created."""
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    conductor = fakes.Conductor()
    status, _printed, said = run(conductor, "replay", "--sample")
    assert (1, []) == (status, conductor.requests)
    assert "Create instances on this fleet, and delete them at the end? [y/N]\nnothing is created\n" == said


def test_a_yes(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that was placed is deleted at the end."""
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    conductor = fakes.Conductor()
    status, printed, _said = run(conductor, "-q", "replay", "--sample", "-f", "json")
    found = json.loads(printed)
    assert (0, {}) == (status, conductor.instances)
    assert found["placed"] == found["deleted"] > 100


def test_what_found_no_place_is_deleted_too(run) -> None:
    """Its record would stay in every list; it does not count as deleted."""
    conductor = fakes.Conductor(lambda request: states.ERROR)
    status, printed, _said = run(conductor, "-q", "replay", "--sample", "--yes", "-f", "json")
    found = json.loads(printed)
    assert (0, {}, 0, 0) == (status, conductor.instances, found["placed"], found["deleted"])
    assert found["refused"] > 100


@pytest.mark.parametrize(
    ("typed", "members", "options", "deleted", "said"),
    [
        pytest.param("y\n", ["a", "b"], (), 1, "Delete the group apart with 2 members? [y/N]\n", id="yes"),
        pytest.param("n\n", ["a"], (), 0, "Delete the group apart with 1 member? [y/N]\nnothing is deleted\n", id="no"),
        pytest.param("", [], (), 1, "", id="a group without members"),
        pytest.param("", ["a"], ("--yes",), 1, "", id="not asked"),
    ],
)
def test_a_group_with_members(
    run,
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    members: list[str],
    options: tuple[str, ...],
    deleted: int,
    said: str,
) -> None:
    """Its deletion is asked about; its members would be left without its policy."""
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    conductor = fakes.Conductor()
    conductor.answers["show_group"] = {"uuid": "u-1", "name": "apart", "members": members}
    status, _printed, error = run(conductor, "group", "delete", "apart", *options)
    assert (1 - deleted, deleted, said) == (status, len(conductor.sent("delete_group")), error)


def test_without_a_terminal(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option is named. With --keep what was placed stays."""
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    conductor = fakes.Conductor()
    status, _printed, said = run(conductor, "replay", "--sample", "--volumes")
    assert (1, []) == (status, conductor.requests)
    assert "this would create volumes on this fleet, and delete them at the end: confirm with --yes\n" == said
    assert 0 == run(conductor, "-q", "replay", "--sample", "--yes", "--keep")[0]
    assert conductor.instances


def test_a_trace_of_ones_own_is_not_asked_about(run, tmp_path: pathlib.Path) -> None:
    """Its name says what is meant, and nothing is deleted unless that is asked for."""
    path = written(tmp_path)
    conductor = fakes.Conductor()
    assert 0 == run(conductor, "-q", "replay", str(path))[0]
    assert 3 == len(conductor.instances)


def test_an_interruption_leaves_nothing_behind(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the sample: what was placed until then is deleted."""
    conductor = fakes.Conductor()
    course = replay.Run.replay

    def interrupted(self: replay.Run, requests: Any, on_done: Any) -> None:
        course(self, requests[:3], on_done)
        raise KeyboardInterrupt

    monkeypatch.setattr(replay.Run, "replay", interrupted)
    status, _printed, said = run(conductor, "-q", "replay", "--sample", "--yes")
    assert (130, {}) == (status, conductor.instances)
    assert conductor.requests
    assert "Interrupted: deleting what was placed" in said
