# SPDX-License-Identifier: Apache-2.0
"""When a daemon counts as growing."""

from __future__ import annotations

import pytest

from tests.chaos import scenarios, soak
from tests.chaos.figures import Figures
from tests.chaos.run import Result
from tests.chaos.watcher import Verdict


def results(*resident_mb: int) -> list[Result]:
    return [
        Result("any", 1, 1.0, Verdict(), {}, {"conductor": Figures(threads=40, descriptors=60, resident_mb=each)})
        for each in resident_mb
    ]


@pytest.mark.parametrize(
    ("found", "flat"),
    [
        pytest.param([100, 200, 205, 210], True, id="pools fill at first"),
        pytest.param([100, 150, 200, 250], False, id="a little with every build"),
        pytest.param([100, 100, 400, 100], True, id="a large message, given back"),
        pytest.param([100, 100], True, id="too short to tell"),
    ],
)
def test_growth(found, flat):
    """The last quarter against the second."""
    assert flat is soak.table(results(*found))[1]


def test_no_daemon_is_ended():
    """A daemon's resource usage is lost when it ends."""
    names = {each.name for each in soak.scenarios_of(scenarios.ALL)}
    assert {"broker:half-open", "database:kill-restart"} <= names
    assert not [name for name in names if name.startswith(("kill-", "sigterm-"))]


def test_the_same_seed_hurts_in_the_same_order():
    """So that a soak can be repeated."""
    given = soak.scenarios_of(scenarios.ALL)

    def names() -> list[tuple[str, int]]:
        ticks = iter(range(10_000))
        return [(each.name, seed) for each, seed in soak.course(given, 1, 7, lambda: next(ticks))]

    assert names() == names()
    assert 50 < len(names()) < 70
