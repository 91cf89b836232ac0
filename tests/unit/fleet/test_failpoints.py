# SPDX-License-Identifier: Apache-2.0
"""Failpoints do nothing until a test's file orders it, and every documented name is used in the code."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from oslo_config import cfg

from conductor_stub.builds.machine import BuildMachine
from fleet import conf as fleet_conf
from fleet import errors, failpoints
from fleet.failpoints import names
from tests.functional import databases

ROOT = pathlib.Path(__file__).parents[3]
POINT = "agent.spawn.before"
Arm = Callable[..., pathlib.Path]


@pytest.fixture
def arm(tmp_path: pathlib.Path) -> Iterator[Arm]:
    """Arm this process with a file that has ``points``."""
    path = tmp_path / "points.json"

    def armed(**points: object) -> pathlib.Path:
        path.write_text(json.dumps({name.replace("__", "."): point for name, point in points.items()}))
        failpoints.arm(configuration(f"enabled = true\nfile = {path}", tmp_path))
        return path

    yield armed
    failpoints.arm(configuration("", tmp_path))


def configuration(lines: str, directory: pathlib.Path) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    failpoints.register_opts(conf)
    file = directory / "fleet.conf"
    file.write_text(f"[failpoints]\n{lines}\n")
    conf(["--config-file", str(file)])
    return conf


def test_a_point_that_is_not_named_does_nothing(arm: Arm) -> None:
    """With failpoints enabled or not, a point without an action does nothing."""
    failpoints.hit(POINT)
    arm()
    failpoints.hit(POINT)


def test_a_point_raises_as_often_as_it_is_told(arm: Arm) -> None:
    """After those that it lets pass; each time leaves a mark, so that a restarted process does not begin again."""
    path = arm(agent__spawn__before={"action": "raise", "times": 2, "skip": 1})
    outcomes = [raises(POINT) for _pass in range(5)]
    assert [False, True, True, False, False] == outcomes
    assert [f"points.json.{POINT}.0", f"points.json.{POINT}.1"] == sorted(
        each.name for each in path.parent.glob("points.json.*")
    )


def test_the_file_may_change_while_the_daemon_runs(arm: Arm) -> None:
    """It is armed, disarmed, and armed elsewhere, without a restart."""
    path = arm()
    assert not raises(POINT)
    path.write_text(json.dumps({POINT: {"action": "raise"}}))
    assert raises(POINT)
    path.unlink()
    assert not raises(POINT)


def test_a_seed_decides_which_passes_fail(arm: Arm) -> None:
    """The same seed, the same passes."""
    arm(agent__spawn__before={"action": "raise", "chance": 0.5, "seed": 7})
    first = [raises(POINT) for _pass in range(20)]
    arm(agent__spawn__before={"action": "raise", "chance": 0.5, "seed": 7})
    assert first == [raises(POINT) for _pass in range(20)]
    assert {True, False} == set(first)


@pytest.mark.parametrize(
    ("what", "text", "field"),
    [
        ("not JSON", "{", "failpoints"),
        ("an unknown point", '{"nowhere": {"action": "exit"}}', "failpoints.nowhere"),
        ("an unknown action", json.dumps({POINT: {"action": "explode"}}), f"failpoints.{POINT}.action"),
        ("a number that is none", json.dumps({POINT: {"action": "exit", "times": 0}}), f"failpoints.{POINT}.times"),
    ],
)
def test_a_wrong_file_is_named(what: str, text: str, field: str) -> None:
    """The message names the wrong point; a daemon logs it and continues without failpoints."""
    with pytest.raises(errors.InvalidInput) as caught:
        failpoints.parse(text)
    assert field == caught.value.field


@pytest.mark.parametrize(("what", "line"), [("not enabled", "file = /points.json"), ("no file", "enabled = true")])
def test_half_a_configuration_ends_the_program(tmp_path: pathlib.Path, what: str, line: str) -> None:
    """In production the options are not there; a file without the permission is refused at start."""
    path = tmp_path / "fleet.conf"
    path.write_text(f"[failpoints]\n{line}\n")
    with pytest.raises(SystemExit) as ended:
        fleet_conf.load_config(["--config-file", str(path)], "fleet-test", conf=cfg.ConfigOpts(), setup_logging=False)
    assert str(ended.value).startswith("fleet-test: Option [failpoints] file ")


@pytest.mark.parametrize(("action", "times"), [("deadlock", 2), ("disconnect", 2)])
def test_a_transaction_is_repeated(arm: Arm, action: str, times: int) -> None:
    """At both of its points: the engine runs the work again from the start, and it ends well."""
    with databases.open_database("sqlite://").disposed() as database:
        arm(
            conductor__take__before_commit={"action": action, "times": times},
            conductor__take__after_commit={"action": action, "times": times},
        )
        runs: list[int] = []

        @failpoints.commits("conductor.take")
        def work(tx: object) -> str:
            runs.append(len(runs))
            return "done"

        assert "done" == database.write(work)
    assert 2 * times + 1 == len(runs)


@pytest.mark.parametrize(("action", "status"), [("exit", -9)])
def test_a_process_dies_as_by_kill_9(tmp_path: pathlib.Path, action: str, status: int) -> None:
    """No handler runs and no file is flushed.

    The restarted process continues, because a mark shows that the point has fired.
    """
    (tmp_path / "points.json").write_text(json.dumps({POINT: {"action": action, "times": 1}}))
    (tmp_path / "fleet.conf").write_text(f"[failpoints]\nenabled = true\nfile = {tmp_path}/points.json\n")
    program = (
        "import sys; from oslo_config import cfg; from fleet import failpoints; conf = cfg.ConfigOpts()\n"
        f"failpoints.register_opts(conf); conf(['--config-file', '{tmp_path}/fleet.conf']); failpoints.arm(conf)\n"
        f"failpoints.hit('{POINT}'); print('alive')"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    lives = [
        subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=False)
        for _life in range(2)
    ]
    assert [status, 0] == [each.returncode for each in lives]


def test_every_name_is_passed_somewhere() -> None:
    """In the code of exactly one service, and no point in the code lacks its line in the list."""
    code = "\n".join(
        path.read_text()
        for package in ("fleet", "conductor_stub", "scheduler", "compute_agent", "volume_agent", "fleet_api")
        for path in (ROOT / package).rglob("*.py")
    )
    assert sorted(names.STEPS) == sorted(re.findall(r'failpoints\.hit\("([\w.]+)"\)', code))
    inherited = re.findall(r"@failpoints\.commits_inherited\(([^)]*)\)", code)
    marked = re.findall(r'@failpoints\.commits\("([\w.]+)"\)', code)
    assert sorted(names.TRANSACTIONS) == sorted(marked + re.findall(r'"([\w.]+)"', "".join(inherited)))


def test_an_inherited_method_passes_the_points_of_its_own_class() -> None:
    class Base:
        def end(self, number: int) -> int:
            return number + 1

    @failpoints.commits_inherited(end="first.end")
    class First(Base):
        pass

    class Second(Base):
        pass

    assert [2, 2] == [First().end(1), Second().end(1)]
    with pytest.raises(AssertionError, match="First has its own end"):
        failpoints.commits_inherited(end="other.end")(First)
    assert [("first.end",), None] == [getattr(each.end, "failpoints", None) for each in (First, Second)]


@pytest.mark.parametrize("name", [*names.TRANSACTIONS, *names.STEPS])
def test_every_name_is_documented(name: str) -> None:
    """docs/chaos.md names every failpoint."""
    assert f"| `{name}` |" in (ROOT / "docs" / "chaos.md").read_text()


def test_the_marked_function_stays_what_it_was() -> None:
    """A mark is an attribute: nothing is wrapped, nothing is slower."""
    assert ("conductor.take",) == BuildMachine.take.failpoints  # type: ignore[attr-defined]


def raises(name: str) -> bool:
    try:
        failpoints.hit(name)
    except failpoints.FailpointReached:
        return True
    return False
