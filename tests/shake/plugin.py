# SPDX-License-Identifier: Apache-2.0
"""A lane's side of a round: the order of its tests, its conditions, and what became of each test.

``python -m tests.shake`` loads it with ``-p``, before the project is imported, and describes the lane in variables.
"""

from __future__ import annotations

import os
import pathlib
import random
from collections.abc import Sequence

import hypothesis  # noqa: F401  (its import is large, and Python 3.11 parses it badly while threads switch often)
import pytest

from tests.shake import conditions, outcomes

_SEED = os.environ["FLEET_SHAKE_SEED"]
_UNTIL = os.environ.get("FLEET_SHAKE_UNTIL", "")
_OUTCOMES = pathlib.Path(os.environ["FLEET_SHAKE_OUTCOMES"])
_REPEAT = os.environ["FLEET_SHAKE_REPEAT"]

conditions.shake(_SEED)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests into the order of the seed. Drop those of ``make long``, and those behind the last one that is wanted.

    A test that is named runs in any case.
    """
    named = tuple(each for each in config.args if "::" in each)
    dropped = {each for each in items if each.get_closest_marker("long") and not each.nodeid.startswith(named)}
    config.hook.pytest_deselected(items=list(dropped))
    items[:] = in_order_of(_SEED, [each for each in items if each not in dropped])
    names = [each.nodeid for each in items]
    if _UNTIL in names:
        last = names.index(_UNTIL) + 1
        config.hook.pytest_deselected(items=items[last:])
        del items[last:]


def in_order_of(seed: str, items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests in random order.

    Tests on one database stay together, since opening another one takes longer than most of them. Unit tests of all files
    are mixed. Other tests stay with those of their file, which share daemons.
    """
    chance = random.Random(f"{seed}/order")
    of_database: dict[str, float] = {}
    of_file: dict[str, float] = {}

    def place(item: pytest.Item) -> tuple[float, float, float]:
        database = str(item.callspec.params.get("opened_database", "") if hasattr(item, "callspec") else "")
        file = item.nodeid.partition("::")[0]
        mixed = "" if file.startswith("tests/unit/") else file
        return (
            of_database.setdefault(database, chance.random()),
            of_file.setdefault(mixed, chance.random()),
            chance.random(),
        )

    places = {item: place(item) for item in items}
    return sorted(items, key=places.__getitem__)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        outcomes.note(_OUTCOMES, outcomes.Outcome(report.nodeid, report.outcome, _SEED))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    failed = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
    for nodeid in dict.fromkeys(each.nodeid for each in failed):
        terminalreporter.line(f"Repeat: {_REPEAT} UNTIL='{nodeid}'")
