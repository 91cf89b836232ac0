# SPDX-License-Identifier: Apache-2.0
"""Name, description and metadata of volumes that exist."""

from __future__ import annotations

from typing import Any

import pytest

from fleet import errors
from tests.worlds.conductor import Conductor

ASKED = {"size": 1, "name": "data", "description": "first", "metadata": {"keeps": "1", "goes": "2"}}


def details(conductor: Conductor, uuid: str) -> dict[str, Any]:
    found = conductor.operator.show_volume(uuid)
    return {name: found[name] for name in ("name", "description", "metadata")}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"name": "db"}, {"name": "db"}, id="name"),
        pytest.param({"description": ""}, {"description": ""}, id="no description"),
        pytest.param({"metadata": {"goes": None, "new": "3"}}, {"metadata": {"keeps": "1", "new": "3"}}, id="merged"),
        pytest.param({"metadata": {"x": "y"}, "replace_metadata": True}, {"metadata": {"x": "y"}}, id="replaced"),
    ],
)
def test_changes(conductor: Conductor, changes: dict[str, Any], expected: dict[str, Any]) -> None:
    """What is not named stays as it was; the step of the volume goes on as before."""
    (made,) = conductor.operator.create_volumes(ASKED)["volumes"]
    before, shown = details(conductor, made["uuid"]), conductor.operator.show_volume(made["uuid"])
    answer = conductor.operator.update_volume(made["uuid"], changes)
    assert {**before, **expected} == details(conductor, made["uuid"])
    assert {name: answer[name] for name in before} == {**before, **expected}
    same = ("status", "step", "attempt", "deadline", "updated_at")
    assert {name: shown[name] for name in same} == {name: answer[name] for name in same}


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"name": ""}, "changes.name"), ({"tags": ["a"]}, "changes.tags"), ({"metadata": {"a": 1}}, "changes.metadata")],
)
def test_changes_that_are_refused(conductor: Conductor, changes: dict[str, Any], field: str) -> None:
    (made,) = conductor.operator.create_volumes(ASKED)["volumes"]
    with pytest.raises(errors.InvalidInput, match=field):
        conductor.operator.update_volume(made["uuid"], changes)
    with pytest.raises(errors.NotFound, match="Volume none"):
        conductor.operator.update_volume("none", {"name": "x"})
