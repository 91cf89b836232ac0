# SPDX-License-Identifier: Apache-2.0
"""The calls of ``fleet server lock``, ``unlock`` and ``reset-state``, and their output."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli import fakes

FOUND = {"name": "web", "uuid": "u-1", "vm_state": "error", "locked_by": "admin"}


@pytest.mark.parametrize(
    ("words", "call", "said"),
    [
        pytest.param(("lock",), ("lock_instance", {}), "is locked by its admin", id="lock"),
        pytest.param(
            ("lock", "--reason", "why"), ("lock_instance", {"reason": "why"}), "is locked by its admin", id="why"
        ),
        pytest.param(("unlock",), ("unlock_instance", {}), "is not locked", id="unlock"),
        pytest.param(("reset-state",), ("reset_state", {"state": "error"}), "is ERROR", id="to error"),
        pytest.param(("reset-state", "--active"), ("reset_state", {"state": "active"}), "is ERROR", id="to active"),
    ],
)
def test_changes_of_the_row(run, words: tuple[str, ...], call: tuple[str, dict[str, Any]], said: str) -> None:
    """Several instances, one call each; the line says what the conductor has answered."""
    conductor = fakes.Conductor()
    for name in ("web", "db"):
        conductor.create({"name": name})
    conductor.answers = {call[0]: FOUND}
    verb, *options = words
    status, out, _ = run(conductor, "server", verb, "web", "db", *options)
    assert (0, [f"web (u-1) {said}"] * 2) == (status, out.splitlines())
    sent = [each for each in conductor.calls if each[0] == call[0]]
    assert [(call[0], {"name": uuid, **call[1]}) for uuid in conductor.instances] == sent
