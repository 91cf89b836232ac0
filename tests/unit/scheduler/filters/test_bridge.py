# SPDX-License-Identifier: Apache-2.0
"""BridgeFilter: where a guest can be plugged."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fleet.context import new_context
from scheduler.compute import filters
from tests import factories
from tests.factories import node, request
from tests.unit.scheduler.judging import passed
from tests.unit.scheduler.test_manager import Scheduler, explained

HOSTS = (
    node("both", stats={"bridges": "br0,br1"}),
    node("first", stats={"bridges": "br0"}),
    node("second", stats={"bridges": "br1"}),
    node("none", stats={"bridges": ""}),
    node("any"),
    node("other", stats={"rack": "7"}),
)


@pytest.mark.parametrize(
    ("bridges", "expected"),
    [
        (None, {"both", "first", "second", "none", "any", "other"}),
        ([], {"both", "first", "second", "none", "any", "other"}),
        (["br0"], {"both", "first", "any", "other"}),
        (["br0", "br1"], {"both", "any", "other"}),
        (["br"], {"any", "other"}),
    ],
)
def test_bridges(bridges: Sequence[str] | None, expected: set[str]) -> None:
    """All of the request's must be there. A host that does not report any counts as one that has them all."""
    hosts = factories.candidates(*HOSTS)
    assert expected == passed(filters.BridgeFilter(), hosts, request(instance={"bridges": bridges}))


def test_the_reason() -> None:
    """It names the bridge that is missing, and those that are there."""
    scheduler = Scheduler(*(each for each in HOSTS if each.host in ("first", "none")))
    answer = explained(scheduler, request(instance={"bridges": ["br1"]}))
    assert ("POLICY", {"BridgeFilter": 2}) == (answer["reason_code"], answer["dropped"])
    assert {"first has no bridge br1; it has br0", "none has no bridge br1; it has none"} == {
        each["text"] for each in answer["nearest"]
    }


def test_capacity() -> None:
    """Only hosts with the bridge are counted."""
    scheduler = Scheduler(*HOSTS[:4])

    def hosts_with_room(*bridges: str) -> int:
        wanted = request(instance={"bridges": list(bridges)})
        asked = {"request_spec": wanted.request_spec, "filter_properties": dict(wanted.filter_properties)}
        count: int = scheduler.manager.capacity(new_context(), **asked)["hosts_with_room"]
        return count

    assert [4, 2, 1] == [hosts_with_room(), hosts_with_room("br0"), hosts_with_room("br0", "br1")]


def test_a_request_with_another_bridge_is_not_answered_from_the_cache() -> None:
    scheduler = Scheduler(*HOSTS[1:3])

    def chosen(bridge: str) -> str:
        wanted = request(instance={"bridges": [bridge]})
        (found,) = scheduler.select(wanted)
        return str(found["host"])

    assert ["first", "second", "first"] == [chosen("br0"), chosen("br1"), chosen("br0")]
