# SPDX-License-Identifier: Apache-2.0
"""``make fast`` runs the tests that reach a change, nearest first, as many as the time allows."""

from __future__ import annotations

import pathlib

import grimp
import pytest

from tests import costs, fast, lanes

#: Real files, because a file that a change has removed is not run.
NEAR = "tests/unit/scheduler/test_filters.py"
FAR = "tests/unit/scheduler/test_manager.py"
OTHER = "tests/unit/api/test_requests.py"


@pytest.fixture
def graph() -> grimp.ImportGraph:
    """test_filters imports the module ram; test_manager imports it by way of filters; test_requests uses a conftest."""
    made = grimp.ImportGraph()
    for importer, imported in (
        ("tests.unit.scheduler.test_filters", "scheduler.compute.filters.ram"),
        ("tests.unit.scheduler.test_manager", "scheduler.compute.filters"),
        ("scheduler.compute.filters", "scheduler.compute.filters.ram"),
        ("tests.unit.api.conftest", "fleet_api.application"),
        ("tests.functional.test_lookup", "scheduler.compute.filters.ram"),
    ):
        made.add_import(importer=importer, imported=imported)
    for package in ("tests.unit.api", "tests.unit.api.test_requests", "fleet_api"):
        made.add_module(package)
    return made


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param(["scheduler/compute/filters/ram.py"], {NEAR: 1, FAR: 2}, id="a module"),
        pytest.param(["scheduler/compute/filters/__init__.py"], {FAR: 1}, id="a package"),
        pytest.param([NEAR], {NEAR: 0}, id="a test"),
        pytest.param([NEAR, "scheduler/compute/filters/__init__.py"], {NEAR: 0, FAR: 1}, id="a test and a module"),
        pytest.param(["fleet_api/application.py"], {OTHER: 2}, id="what a conftest imports"),
        pytest.param(["tests/unit/api/conftest.py"], {OTHER: 1}, id="a conftest"),
        pytest.param(["scheduler/compute/filters/gone.py", "tests/unit/test_gone.py"], {}, id="files that are gone"),
        pytest.param(["tests/functional/test_lookup.py"], {}, id="a test of another suite"),
    ],
)
def test_the_tests_that_reach_a_change(graph: grimp.ImportGraph, changed: list[str], expected: dict[str, int]) -> None:
    """The distance is the number of imports."""
    assert expected == fast.distances(graph, changed)


def test_a_file_that_is_no_module(graph: grimp.ImportGraph) -> None:
    """Tests that name it, and the tests of the manual."""
    found = fast.distances(graph, ["etc/prometheus/fleet-alerts.yaml"])
    assert {1} == set(found.values())
    assert {"tests/unit/docs/test_pages.py", "tests/unit/docs/test_monitoring.py"} <= found.keys()


def test_the_nearest_tests_run_as_long_as_there_is_time() -> None:
    """The cheapest of those that are equally near come first."""
    found = {"c": 1, "b": 1, "a": 1, "d": 2, "z": 0}
    seconds = {"a": 3.0, "b": 2.0, "c": 1.0, "d": 0.1, "z": 1.0}
    assert (["z", "c", "b"], ["a", "d"]) == fast.choose(found, seconds, budget_s=5.0)
    assert (["z", "c", "b", "a", "d"], []) == fast.choose(found, seconds, budget_s=8.0)


def test_suites_are_mixed_and_begin_with_their_longest_files() -> None:
    """Files that are not known are small."""
    files = ["tests/unit/a.py", "tests/unit/d/e.py", "tests/unit/b.py", *(f"tests/amqp/{name}.py" for name in "xyz")]
    seconds = {"tests/unit/d/e.py": 9.0, "tests/amqp/y.py": 5.0, "tests/amqp/x.py": 3.0, "tests/amqp/z.py": 2.0}
    places = costs.places(files, seconds)
    expected = ["amqp/y", "unit/d/e", "amqp/x", "amqp/z", "unit/a", "unit/b"]
    assert [f"tests/{name}.py" for name in expected] == sorted(files, key=lambda file: places[file])


def test_a_process_takes_files_of_its_kind_first() -> None:
    """Those that need daemons, or the others; what is left when there are none."""
    files = ["tests/unit/a.py", "tests/amqp/b.py", "tests/unit/c.py", "tests/amqp/d.py"]
    assert ("tests/amqp/b.py", "tests/unit/a.py") == (lanes.next_file(files, True), lanes.next_file(files, False))
    assert ("tests/unit/a.py", "tests/amqp/b.py") == (
        lanes.next_file(files[::2], True),
        lanes.next_file(files[1::2], False),
    )


def test_costs_are_read_from_a_report(tmp_path: pathlib.Path) -> None:
    """The tests of a class count for their file; a file that takes little is not named."""
    cases = [("tests.unit.test_a", 3), ("tests.unit.test_a.TestB", 2.04), ("tests.amqp.test_c", 1)]
    said = "".join(f'<testcase classname="{name}" name="test" time="{spent_s}"/>' for name, spent_s in cases)
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuites><testsuite>{said}</testsuite></testsuites>")
    assert {"tests/unit/test_a.py": 5.0} == costs.measured(str(report))


def test_changes_are_those_since_the_merge_base(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """Commits of the branch, changes of the working tree and new files; not what the base has got meanwhile."""
    monkeypatch.setattr(fast, "ROOT", tmp_path)
    for variable in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(variable, raising=False)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "x")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "x@example.org")

    def commit(name: str) -> None:
        (tmp_path / name).write_text(name)
        fast._git("add", name)
        fast._git("commit", "-q", "-m", name)

    fast._git("init", "-q", "-b", "main")
    commit("common")
    fast._git("checkout", "-q", "-b", "mine")
    commit("committed")
    fast._git("checkout", "-q", "main")
    commit("theirs")
    fast._git("checkout", "-q", "mine")
    (tmp_path / "common").write_text("edited")
    (tmp_path / "new").write_text("new")
    assert {"committed", "common", "new"} == fast.changes("main")
    with pytest.raises(SystemExit, match="BASE=BRANCH names what to compare with"):
        fast.changes("nowhere")


def test_costs_name_existing_files() -> None:
    """A file that has been renamed takes its cost along."""
    assert [] == [path for path in costs.known() if not (fast.ROOT / path).exists()]
