# SPDX-License-Identifier: Apache-2.0
"""The calls of ``fleet server resize``, ``evacuate`` and ``migration list``, and their output."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet import errors, states
from fleet_cli.servers import moves
from tests.unit.cli import fakes

RECORD = {
    "uuid": "m1",
    "instance_uuid": "u1",
    "migration_type": "resize",
    "source_compute": "h1",
    "dest_compute": "h2",
    "failure": None,
}
NO_ROOM = {"error": "NoValidHost", "message": "No valid host was found. Full."}


class Migrations(fakes.Conductor):
    """Moves end as ``ends`` says, one status a look."""

    def __init__(self, *ends: dict[str, Any]) -> None:
        super().__init__()
        self.ends = list(ends)

    def ask(self, method: str, **arguments: Any) -> Any:
        known = super().ask(method, **arguments)
        if method == "list_migrations":
            return [{**RECORD, **self.ends.pop(0)}]
        if method == "list_instances":
            return list(self.instances.values())
        return {**RECORD, "status": "accepted"} if known is None else known


@pytest.mark.parametrize(
    ("ends", "status", "printed"),
    [
        pytest.param([{"status": "finished"}], 0, "u1: resize h1 → h2 is finished", id="it went well"),
        pytest.param(
            [{"status": "preparing"}, {"status": "error", "dest_compute": None, "failure": NO_ROOM}],
            1,
            "u1: resize h1 → - is error: No valid host was found. Full.",
            id="nowhere to go",
        ),
    ],
)
def test_resize_wait(run, ends: list[dict[str, Any]], status: int, printed: str) -> None:
    """The exit status says whether it moved, the line why not."""
    conductor = Migrations(*ends)
    found, out, _ = run(conductor, "server", "resize", "web", "--flavor", "large", "--wait")
    assert (status, printed) == (found, out.strip())
    assert ("resize_instance", {"name": "web", "flavor": "large"}) == conductor.calls[0]


@pytest.mark.parametrize("word", ["migrate", "evacuate"])
def test_a_move_to_a_chosen_host(run, word: str) -> None:
    """Without --to the scheduler has the choice."""
    conductor = Migrations()
    assert 0 == run(conductor, "server", word, "web", "--to", "h9")[0]
    assert 0 == run(conductor, "server", word, "web")[0]
    sent = [arguments for _method, arguments in conductor.calls]
    assert [{"name": "web", "host": "h9"}, {"name": "web"}] == sent


def test_a_live_migration_and_its_abort(run) -> None:
    """The abort succeeds if the guest has stayed."""
    conductor = Migrations({"status": "cancelled"}, {"status": "completed"})
    assert 0 == run(conductor, "server", "migrate", "web", "--live", "--to", "h9")[0]
    assert 0 == run(conductor, "server", "migration", "abort", "web", "--wait")[0]
    assert 1 == run(conductor, "server", "migration", "abort", "web", "--wait")[0]
    live, abort = ("live_migrate_instance", {"name": "web", "host": "h9"}), ("abort_live_migration", {"name": "web"})
    assert [live, abort, abort] == [each for each in conductor.calls if each[0] != "list_migrations"]


@pytest.mark.parametrize("word", ["confirm", "revert"])
def test_deciding_about_a_resize(run, word: str) -> None:
    """Without --wait the command only sends the request."""
    conductor = Migrations()
    assert 0 == run(conductor, "server", "resize", word, "web")[0]
    assert [(f"{word}_resize", {"name": "web"})] == conductor.calls


def test_evacuating_a_host_takes_what_is_active(run) -> None:
    """And what has failed, but what is under way is named and left alone."""
    conductor = Migrations()
    conductor.create({"name": "web", "count": 3})
    first, second, third = conductor.instances.values()
    second["task_state"] = "deleting"
    third["vm_state"] = states.ERROR
    _status, out, _ = run(conductor, "server", "evacuate", "--host", "host1")
    asked = [arguments["name"] for method, arguments in conductor.calls if method == "evacuate_instance"]
    assert [first["uuid"], third["uuid"]] == asked
    assert f"{second['uuid']}: left alone, it is {states.ACTIVE} (deleting)" in out


def test_a_resized_instance_is_not_left_on_its_host_unnamed(run) -> None:
    """The conductor is asked for it, and refuses it with its reason."""
    conductor = Refusing()
    list(conductor.instances.values())[1]["vm_state"] = states.RESIZED
    status, _out, error = run(conductor, "server", "evacuate", "--host", "host1")
    assert (1, True) == (status, "refused: 1 of 3" in error)


class Refusing(Migrations):
    """Refuses to evacuate the second of three instances of a host."""

    def __init__(self, *ends: dict[str, Any]) -> None:
        super().__init__(*ends)
        self.create({"name": "web", "count": 3})

    def ask(self, method: str, **arguments: Any) -> Any:
        answer = super().ask(method, **arguments)
        if method == "evacuate_instance" and arguments["name"] == list(self.instances)[1]:
            raise errors.Conflict(kind="Instance", name="web", reason="is locked")
        return answer


@pytest.mark.parametrize(
    ("options", "ends", "said"),
    [
        pytest.param((), (), "u1: resize is accepted", id="only asked for"),
        pytest.param(("--wait",), ({"status": "completed"},), "u1: resize h1 → h2 is completed", id="waited for"),
    ],
)
def test_a_refused_evacuation_keeps_no_other_from_its_own(
    run, options: tuple[str, ...], ends: tuple[dict[str, Any], ...], said: str
) -> None:
    """Each instance is asked for, those accepted are followed, and the exit status and an error name the refused one."""
    conductor = Refusing(*ends)
    status, out, error = run(conductor, "server", "evacuate", "--host", "host1", *options)
    asked = [arguments["name"] for method, arguments in conductor.calls if method == "evacuate_instance"]
    assert list(conductor.instances) == asked
    assert (1, True) == (status, said in out)
    assert f"refused: 1 of 3: web ({asked[1]}): Instance web is locked" in error


def test_evacuate_wants_one_or_a_host(run) -> None:
    """Neither, or both, is a mistake that is explained."""
    for arguments in ([], ["web", "--host", "h1"]):
        status, _, told = run(Migrations(), "server", "evacuate", *arguments)
        assert (1, True) == (status, "name the instance to evacuate, or use --host HOST" in told)


def test_force_down_and_back(run) -> None:
    """The host is said to be dead, and trusted again."""
    conductor = Migrations()
    run(conductor, "service", "force-down", "h1")
    run(conductor, "service", "force-down", "h1", "--unset")
    assert [True, False] == [arguments["forced"] for _method, arguments in conductor.calls]


@pytest.mark.parametrize("forced_down", [True, False])
def test_enabled_and_still_forced_down(run, forced_down: bool) -> None:
    """Such a host takes no instances, so the command that ends it is named."""
    conductor = Migrations()
    conductor.answers["update_service"] = {"forced_down": forced_down}
    status, _, told = run(conductor, "host", "enable", "h1")
    assert (0, forced_down) == (status, "'fleet service force-down --unset h1'" in told)


def test_progress_of_a_copy(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the list of moves, and of the instance."""
    copying = {"status": "post-migrating", "copied_percent": 40}
    monkeypatch.setenv("COLUMNS", "200")
    _status, out, _ = run(Migrations(copying), "migration", "list")
    assert "post-migrating, 40 % copied" in out
    columns = ("-f", "value", "-c", "status", "-c", "copied_percent")
    _status, out, _ = run(Migrations(copying), "migration", "list", *columns)
    assert "post-migrating 40" == out.strip()
    assert "resize h1 → h2 is post-migrating, 40 % copied" == moves.shown({**RECORD, **copying})["migration"]


@pytest.mark.parametrize(("resized", "kind"), [(False, "migration"), (True, "resize")])
def test_a_move_that_keeps_the_flavor_is_a_migration(run, resized: bool, kind: str) -> None:
    """As those of a drain; in tables, for programs, and in what --wait prints."""
    move = {**RECORD, "migration_type": "resize", "resized": resized}
    assert kind in run(Migrations(move), "migration", "list")[1]
    (listed,) = json.loads(run(Migrations(move), "migration", "list", "-f", "json")[1])
    assert kind == listed["migration_type"]
    assert f": {kind} " in moves.outcome(move)


def test_migration_list_says_why(run) -> None:
    """The failure is a sentence, not a structure."""
    conductor = Migrations({"status": "error", "failure": NO_ROOM})
    _status, out, _ = run(conductor, "migration", "list", "--host", "h1", "-f", "value", "-c", "failure")
    assert NO_ROOM["message"] == out.strip()
    assert ("list_migrations", {"filters": {"host": "h1"}, "limit": 1000}) == conductor.calls[0]
