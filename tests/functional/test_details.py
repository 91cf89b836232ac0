# SPDX-License-Identifier: Apache-2.0
"""Name, description, metadata and tags of instances that exist."""

from __future__ import annotations

from concurrent import futures
from typing import Any

import pytest

from fleet import errors
from fleet.context import new_context
from tests.worlds.conductor import Conductor

HOSTS = ("a1",)
ASKED = {"name": "web", "description": "first", "metadata": {"keeps": "1", "goes": "2"}, "tags": ["b", "a"]}


def details(conductor: Conductor, uuid: str) -> dict[str, Any]:
    found = conductor.operator.show_instance(uuid)["instance"]
    return {name: found[name] for name in ("name", "description", "metadata", "tags")}


def change(conductor: Conductor, uuid: str, **changes: Any) -> dict[str, Any]:
    changed: dict[str, Any] = conductor.operator.update_instance(uuid, changes)
    return changed


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"name": "db"}, {"name": "db"}, id="name"),
        pytest.param({"description": ""}, {"description": ""}, id="no description"),
        pytest.param(
            {"metadata": {"goes": None, "new": "3"}}, {"metadata": {"keeps": "1", "new": "3"}}, id="merged metadata"
        ),
        pytest.param({"metadata": {"x": "y"}, "replace_metadata": True}, {"metadata": {"x": "y"}}, id="other metadata"),
        pytest.param({"tags": ["z", "z"]}, {"tags": ["z"]}, id="other tags"),
        pytest.param({"add_tags": ["c"], "remove_tags": ["a", "unknown"]}, {"tags": ["b", "c"]}, id="one in, one out"),
        pytest.param({"tags": []}, {"tags": []}, id="no tags"),
    ],
)
def test_changes(conductor: Conductor, changes: dict[str, Any], expected: dict[str, Any]) -> None:
    """What is not named stays as it was, also in a second instance of the same request."""
    one, other = conductor.create(**ASKED, count=2)
    before = {**details(conductor, one)}
    assert (["a", "b"], "first") == (before["tags"], before["description"])
    answer = change(conductor, one, **changes)
    assert {**before, **expected} == details(conductor, one)
    assert details(conductor, one) == {name: answer[name] for name in before}
    assert {**before, "name": "web-2"} == {**details(conductor, other), "name": "web-2"}


def test_a_resize_keeps_them(conductor: Conductor) -> None:
    """Both are kept beside the request, and neither undoes the other."""
    uuid = conductor.place("a1", **ASKED)
    conductor.claim(uuid, "a1")
    conductor.finish(uuid, "a1")
    change(conductor, uuid, metadata={"late": "yes"}, add_tags=["c"])
    conductor.operator.resize_instance(uuid, {"vcpus": 2, "memory_mb": 2048, "root_gb": 10})
    found = details(conductor, uuid)
    assert ("yes", ["a", "b", "c"]) == (found["metadata"]["late"], found["tags"])


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "changes.name"),
        ({"name": "a\nb"}, "changes.name"),
        ({"description": 7}, "changes.description"),
        ({"metadata": {"k": "v" * 256}}, "changes.metadata.k"),
        ({"metadata": {str(n): "v" for n in range(129)}}, "changes.metadata"),
        ({"metadata": {str(n): "v" for n in range(127)}}, "changes.metadata"),
        ({"metadata": {"../../b": "v"}}, "changes.metadata"),
        ({"tags": ["a,b"]}, "changes.tags.0"),
        ({"tags": [".."]}, "changes.tags.0"),
        ({"add_tags": ["a/b"]}, "changes.add_tags.0"),
        ({"add_tags": ["a" * 61]}, "changes.add_tags.0"),
        ({"add_tags": [str(n) for n in range(49)]}, "changes.tags"),
        ({"tags": "a"}, "changes.tags"),
        ({"tag": ["a"]}, "changes.tag"),
    ],
)
def test_mistakes_are_named(conductor: Conductor, changes: dict[str, Any], field: str) -> None:
    (uuid,) = conductor.create(**ASKED)
    before = details(conductor, uuid)
    with pytest.raises(errors.InvalidInput) as refused:
        change(conductor, uuid, **changes)
    assert field == refused.value.field
    assert before == details(conductor, uuid)


def test_a_deleted_instance_is_not_there(conductor: Conductor) -> None:
    (uuid,) = conductor.create(**ASKED)
    conductor.termination.terminate(new_context(), [uuid])
    with pytest.raises(errors.NotFound, match=uuid):
        change(conductor, uuid, name="db")


def test_changes_at_once_are_all_kept(conductor: Conductor) -> None:
    """Each reads what the one before has written."""
    (uuid,) = conductor.create(name="web")
    with futures.ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: change(conductor, uuid, metadata={str(n): "v"}, add_tags=[str(n)]), range(24)))
    found = details(conductor, uuid)
    assert (24, 24) == (len(found["metadata"]), len(found["tags"]))
