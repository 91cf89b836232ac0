# SPDX-License-Identifier: Apache-2.0
"""The search runs in Python: numba would compile for half a minute, in each process of a run."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_machine_code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the tests of ``make long``."""
    if request.node.get_closest_marker("long") is None:
        monkeypatch.setattr("scheduler.planning.search.annealing.compiled_search", lambda: None)
