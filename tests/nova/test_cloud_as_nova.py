# SPDX-License-Identifier: Apache-2.0
"""Scenarios end with fleet-scheduler as with nova-scheduler, and the manual has both endings."""

from __future__ import annotations

import os
import pathlib
import signal
import traceback
from collections.abc import Iterator, Mapping

import pytest

from tests.nova.cloud import Cloud, eventually
from tests.nova.files import NOVAS_FILTERS
from tests.nova.scenarios import SCENARIOS

#: The fixture plays all scenarios twice.
pytestmark = pytest.mark.timeout(1800)

#: Title → how it ends.
Endings = Mapping[str, str]
_PAGE = pathlib.Path(__file__).parents[2] / "docs/nova.md"
_BEGIN, _END = "<!-- scenarios: begin -->\n", "<!-- scenarios: end -->\n"
#: Set to write the table into the manual.
_WRITE = "FLEET_WRITE"


@pytest.fixture(scope="module")
def endings(cloud: Cloud) -> Iterator[tuple[Endings, Endings]]:
    """With nova-scheduler, and with fleet-scheduler, which runs afterwards."""
    cloud.kill("fleet-scheduler", signal.SIGTERM)
    cloud.start_nova_scheduler()
    try:
        theirs = _played(cloud)
    finally:
        cloud.kill("nova-scheduler", signal.SIGTERM)
        cloud.start_fleet_scheduler(more=f"scheduler_default_filters = {NOVAS_FILTERS}")
    ours = _played(cloud)
    yield theirs, ours
    cloud.kill("fleet-scheduler", signal.SIGTERM)
    cloud.start_fleet_scheduler()


def _played(cloud: Cloud) -> Endings:
    found = {}
    for title, play in SCENARIOS.items():
        try:
            found[title] = play(cloud)
        except Exception:
            found[title] = traceback.format_exc()
        cloud.delete_all()
        eventually(lambda: cloud.allocations() == {} or None, 60)
    return found


@pytest.mark.parametrize("title", SCENARIOS)
def test_it_ends_as_with_nova(endings: tuple[Endings, Endings], title: str) -> None:
    theirs, ours = endings
    assert theirs[title] == ours[title]


def test_the_manual_has_the_table(endings: tuple[Endings, Endings]) -> None:
    """``FLEET_WRITE=1 make nova`` writes it."""
    theirs, ours = endings
    lines = ["", "| Scenario | nova-scheduler | fleet-scheduler |", "|---|---|---|"]
    lines += [f"| {title} | {theirs[title]} | {ours[title]} |" for title in SCENARIOS]
    text = _PAGE.read_text()
    before, _begin, rest = text.partition(_BEGIN)
    shown, _end, after = rest.partition(_END)
    table = "\n".join([*lines, "", ""])
    if os.environ.get(_WRITE):
        _PAGE.write_text(f"{before}{_BEGIN}{table}{_END}{after}")
    else:
        assert table == shown
