# SPDX-License-Identifier: Apache-2.0
"""Lists in parts, by text, state and order: of instances and of volumes."""

from __future__ import annotations

from typing import Any

import oslo_messaging
import pytest

from conductor_stub.operators.search import SearchManager
from fleet import errors
from tests.worlds.conductor import Conductor, context

pytestmark = pytest.mark.every_database

HOSTS = ("h1", "h2")
SMALL = {"vcpus": 1, "memory_mb": 512, "root_gb": 1, "ephemeral_gb": 2, "name": "small"}
LARGE = {"vcpus": 4, "memory_mb": 64, "root_gb": 8, "name": "large"}


def names(found: dict[str, Any]) -> list[str]:
    return [each["name"] for each in found["instances"]]


@pytest.fixture
def three(conductor: Conductor) -> dict[str, str]:
    """Uuids by name: ``web1`` is active on h1, ``web2`` is claimed on h2, ``db`` has no host."""
    made = {}
    for name, host, flavor in (("web1", "h1", SMALL), ("web2", "h2", LARGE)):
        made[name] = conductor.place(host, name=name, flavor=flavor, metadata={"tier": f"of {name}"})
        conductor.claim(made[name], host)
        conductor.clock.advance(1)
    conductor.finish(made["web1"], "h1")
    (made["db"],) = conductor.create(name="db_%", flavor=LARGE)
    return made


def test_all_of_them_the_newest_first(conductor: Conductor, three: dict[str, str]) -> None:
    """With sizes, and how many there are in each state."""
    found = conductor.operator.search_instances()
    assert (["db_%", "web2", "web1"], 3) == (names(found), found["total"])
    assert [{"state": "active", "count": 1}, {"state": "building", "count": 2}] == found["states"]
    (first,) = [each for each in found["instances"] if each["name"] == "web1"]
    expected = {"uuid": three["web1"], "host": "h1", "vcpus": 1, "memory_mb": 512, "disk_gb": 3, "flavor_name": "small"}
    assert expected == {name: first[name] for name in expected}
    assert "label" not in first


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WEB", ["web2", "web1"]),
        ("h2", ["web2"]),
        ("large", ["db_%", "web2"]),
        ("_%", ["db_%"]),  # no patterns
        ("%", ["db_%"]),
        ("'", []),
        ("nosuch", []),
    ],
)
def test_a_text(conductor: Conductor, three: dict[str, str], text: str, expected: list[str]) -> None:
    """A part of name, host or flavor, in any case; the counts are of what matches."""
    found = conductor.operator.search_instances(text=text)
    assert (expected, len(expected)) == (names(found), sum(each["count"] for each in found["states"]))


def test_a_part_of_a_uuid(conductor: Conductor, three: dict[str, str]) -> None:
    assert ["web1"] == names(conductor.operator.search_instances(text=three["web1"][:13]))


def test_parts_in_an_order(conductor: Conductor, three: dict[str, str]) -> None:
    """Every row is in one part; an instance without a host comes first by host."""
    for sort, expected in (("name", ["db_%", "web1", "web2"]), ("host", ["db_%", "web1", "web2"])):
        parts = [
            conductor.operator.search_instances(sort=sort, descending=False, limit=2, offset=offset)
            for offset in (0, 2, 4)
        ]
        assert expected == [name for part in parts for name in names(part)]
        assert [3, 3, 3] == [part["total"] for part in parts]


def test_a_state(conductor: Conductor, three: dict[str, str]) -> None:
    """The numbers of the other states stay: they are what one may choose next."""
    found = conductor.operator.search_instances(state="active")
    assert (["web1"], 1) == (names(found), found["total"])
    assert [1, 2] == [each["count"] for each in found["states"]]
    assert 0 == conductor.operator.search_instances(state="nosuch")["total"]


def test_a_label(conductor: Conductor, three: dict[str, str]) -> None:
    """The value of a key of the metadata, also of metadata that was changed; None if there is none."""
    conductor.operator.update_instance(three["web2"], {"metadata": {"tier": "changed"}})
    found = conductor.operator.search_instances(label="tier", sort="name", descending=False)
    assert [None, "of web1", "changed"] == [each["label"] for each in found["instances"]]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"sort": "colour"}, "sort must be one of"),
        ({"sort": "uuid; drop table instances"}, "sort must be one of"),
        ({"filters": {"colour": "red"}}, "filters.colour"),
        ({"limit": 0}, "limit"),
        ({"limit": 20_001}, "limit"),
        ({"limit": 10**300}, "limit"),
        ({"offset": -1}, "offset"),
        ({"text": "x" * 256}, "text"),
        ({"text": "a\x00"}, "text"),
    ],
)
def test_what_is_wrong_is_named(conductor: Conductor, asked: dict[str, Any], field: str) -> None:
    for search in (conductor.operator.search_instances, conductor.operator.search_volumes):
        with pytest.raises(errors.InvalidInput, match=field):
            search(**asked)


def test_a_project_searches_no_hosts(conductor: Conductor, three: dict[str, str]) -> None:
    """A match, or the order, would tell which of its instances is on which host."""
    web = context("tenant")
    web.is_admin = False
    search = SearchManager(conductor.database)
    assert ["db_%", "web2", "web1"] == names(search.search_instances(web))
    assert [] == names(search.search_instances(web, text="h2"))
    with pytest.raises(oslo_messaging.ExpectedException) as refused:
        search.search_instances(web, sort="host")
    assert "sort must be one of" in str(refused.value.exc_info[1])


def test_volumes(conductor: Conductor) -> None:
    """By name, state and order, without snapshots."""
    conductor.operator.create_volumes({"size": 3, "name": "data", "count": 2})
    conductor.operator.create_volumes({"size": 1, "name": "logs"})
    found = conductor.operator.search_volumes(sort="size_gb", limit=2)
    assert ([3, 3], 3) == ([each["size_gb"] for each in found["volumes"]], found["total"])
    assert ["logs"] == [each["name"] for each in conductor.operator.search_volumes(text="LOG")["volumes"]]
    assert [{"state": "creating", "count": 3}] == found["states"]
