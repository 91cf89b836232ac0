# SPDX-License-Identifier: Apache-2.0
"""The conditions of shaken tests, the order of a lane, and the table of what ran."""

from __future__ import annotations

import pathlib
import random
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from tests import evidence, seeds
from tests.shake import __main__ as shake
from tests.shake import conditions, outcomes

NUMBERS = "SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT a FROM t", True),
        ("SELECT a FROM t WHERE b IN (SELECT c FROM u ORDER BY (c)) LIMIT 3", True),
        ("SELECT a FROM (SELECT 1 AS a) AS t order by a", False),
        ("WITH x AS (SELECT 1 ORDER BY 1) SELECT a FROM x", True),
        ("UPDATE t SET a = 1", False),
    ],
)
def test_a_query_leaves_its_order_open_if_its_outermost_part_states_none(statement: str, expected: bool) -> None:
    """The order inside of a subquery does not bind the rows of the whole."""
    assert expected == conditions.leaves_order_open(statement)


def test_rows_without_an_order_arrive_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with a stated order keep it."""
    listening = []
    monkeypatch.setattr(sa.event, "listen", lambda *arguments: listening.append(arguments))
    conditions.shuffle_rows(random.Random(1))
    monkeypatch.undo()
    (_engine, name, shuffle), engine = listening[0], sa.create_engine("sqlite://")
    sa.event.listen(engine, name, shuffle)
    with engine.connect() as connection:
        ordered = [list(connection.execute(sa.text(f"{NUMBERS} ORDER BY n")).scalars()) for _time in range(5)]
        free = [list(connection.execute(sa.text(NUMBERS)).scalars()) for _time in range(5)]
    assert [[1, 2, 3, 4, 5]] * 5 == ordered
    assert {(1, 2, 3, 4, 5)} == {tuple(sorted(each)) for each in free}
    assert len({tuple(each) for each in free}) > 1


def test_readings_of_a_clock_are_pauses_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed decides before which readings a process pauses."""
    paused: list[float] = []
    # Not the clock of this process: other threads read it and sleep.
    clock = SimpleNamespace(
        **{name: lambda: 0.0 for name in ("monotonic", "time", "perf_counter")}, sleep=paused.append
    )
    monkeypatch.setattr(conditions, "time", clock)
    conditions.stretch_time(random.Random(1))
    for _reading in range(2000):
        clock.monotonic()
    assert 0 < len(paused) < 50


def test_a_lane_gets_the_same_files_for_the_same_seed() -> None:
    """Each file is in one lane."""
    files = [f"tests/unit/test_{number}.py" for number in range(9)]
    dealt = shake.deal(files, 2, seed=4)
    assert dealt == shake.deal(files, 2, seed=4)
    assert dealt != shake.deal(files, 2, seed=5)
    assert files == sorted(sum(dealt, []))


def test_a_folder_stands_for_its_files() -> None:
    """A node id stays as it is."""
    chosen = f"{pathlib.Path(__file__).relative_to(shake.ROOT)}::test_x"
    assert ["tests/unit/shake/test_shake.py", chosen] == shake.targets(["tests/unit/shake", chosen])


def test_the_table_counts_how_often_each_test_ran() -> None:
    """The least of a suite is that of its rarest test; a skipped test did not run.

    A test that ran on two databases in a round ran in one round.
    """
    engines = ["sqlite-x", "mariadb-x", "postgresql-x", "sqlite-x"]
    ran = [(f"tests/unit/a.py::x[{engine}]", "passed", seed) for engine, seed in zip(engines, "7789", strict=True)]
    ran += [("tests/unit/a.py::y", "failed", "7"), ("tests/amqp/b.py::z", "skipped", "7")]
    lines = list(outcomes.table(outcomes.Outcome(*each) for each in ran))
    assert [["unit", "2", "1", "3", "5", "1"]] == [each.split() for each in lines[1:-1]]
    assert "failed: tests/unit/a.py::y (seed 7)" == lines[-1]


def test_outcomes_are_read_back(tmp_path: pathlib.Path) -> None:
    """Rounds add to what earlier ones have noted."""
    noted = [outcomes.Outcome("a::b", "passed", "1"), outcomes.Outcome("a::c", "failed", "2")]
    for each in noted:
        outcomes.note(tmp_path / "outcomes", each)
    assert noted == list(outcomes.read(tmp_path / "outcomes"))


def test_generators_without_a_seed_repeat_with_the_test() -> None:
    """Two generators of one test differ."""
    drawn = []
    for _time in range(2):
        seeds.begin("a test")
        drawn.append((random.Random().random(), random.Random().random(), random.random()))
    assert drawn[0] == drawn[1]
    assert 3 == len(set(drawn[0]))


def test_a_failed_test_shows_the_ends_of_logs(tmp_path: pathlib.Path) -> None:
    """The seed, the process and the last lines of each daemon stand in the report."""
    log = tmp_path / "of-this-test.log"
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    report = SimpleNamespace(nodeid="tests/a.py::b", sections=[])
    with evidence.watch(lambda: [log, tmp_path / "gone.log"]):
        evidence.add_to(report)  # type: ignore[arg-type]
    run, said = report.sections[0]
    # Daemons that the process keeps for other tests are shown as well.
    of_logs = dict(report.sections[1:])
    end, why = of_logs["last lines of of-this-test.log"], of_logs["last lines of gone.log"]
    assert "run" == run
    assert said.startswith(f"seed {seeds.of_run()}, process ")
    assert [f"line {number}" for number in range(75, 100)] == end.splitlines()
    assert "cannot be read: No such file or directory" == why
