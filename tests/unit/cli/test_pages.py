# SPDX-License-Identifier: Apache-2.0
"""Long lists of instances, and requests of many guests, are asked for in parts."""

from __future__ import annotations

from typing import Any

import pytest

from fleet import errors
from fleet.client import pages
from fleet.rpc.clients import OperatorCalls
from tests.operator_calls import Asked


class Old(Asked):
    """A conductor with 450 instances that knows the arguments ``known``; its clients know that it is old."""

    def __init__(self, *known: str) -> None:
        self._known = known
        self.asked: list[dict[str, Any]] = []

    def ask(self, method: str, **arguments: Any) -> list[dict[str, Any]]:
        self.asked.append(arguments)
        if "marker" in arguments and "marker" not in self._known:
            raise errors.VersionPinned(topic="conductor", method=method, needs="1.10", cap="1.9", pin=None)
        start = arguments.get("marker", -1) + 1
        most = arguments.get("limit", 450) if "limit" in self._known else 450
        return [{"uuid": number} for number in range(start, min(start + most, 450))]


@pytest.mark.parametrize(
    ("known", "most", "calls"),
    [
        (("limit", "marker"), None, [(200, None), (200, 199), (200, 399)]),
        (("limit", "marker"), 250, [(200, None), (50, 199)]),
        (("limit", "marker"), 200, [(200, None)]),
        (("limit", "marker"), 5, [(5, None)]),
        (("limit",), None, [(200, None), (200, 199), (None, None)]),
        (("limit",), 250, [(200, None), (50, 199), (None, None)]),
        ((), None, [(200, None)]),
        ((), 5, [(5, None)]),
    ],
)
def test_a_list_comes_in_parts(
    known: tuple[str, ...], most: int | None, calls: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also that of a conductor which is too old for a marker, or for a limit."""
    conductor = Old(*known)
    monkeypatch.setattr(pages, "_BATCH", 200)
    found = pages.instances(conductor, {"host": "h1"}, most)  # type: ignore[arg-type]
    assert list(range(450))[:most] == [each["uuid"] for each in found]
    assert calls == [(asked.get("limit"), asked.get("marker")) for asked in conductor.asked]
    assert all({"host": "h1"} == asked["filters"] for asked in conductor.asked)


ELSEWHERE = ["h1", "h2"]


class Large:
    """A conductor whose answer has at most ``most`` requests."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.asked: list[int] = []

    def __call__(self, method: str, uuids: list[str], live: bool = False) -> list[dict[str, Any]]:
        assert "requests_of" == method
        self.asked.append(len(uuids))
        if len(uuids) > self._most:
            raise errors.InvalidInput(field="answer", reason="is too large: 40 MiB, and a message has at most 15")
        return [{"uuid": each, "filter_properties": {"ignore_hosts": list(ELSEWHERE)}} for each in uuids]


def test_fewer_are_asked_for_where_an_answer_would_be_too_large() -> None:
    """All requests arrive, and the parts that follow have the size that was answered."""
    conductor, uuids = Large(200), [str(number) for number in range(600)]
    parts = list(pages.requests(OperatorCalls(conductor), uuids))
    assert uuids == [each["uuid"] for part in parts for each in part]
    assert [500, 125, 125, 125, 125, 100] == conductor.asked


def test_guests_that_cannot_reach_the_same_hosts_share_their_list() -> None:
    """A plan of a large fleet has it in memory once, and not once for each guest."""
    (part,) = pages.requests(OperatorCalls(Large(9)), ["a", "b"], live=True)
    first, second = (each["filter_properties"]["ignore_hosts"] for each in part)
    assert ELSEWHERE == first
    assert first is second


def test_a_request_that_no_answer_carries_is_a_refusal() -> None:
    with pytest.raises(errors.InvalidInput, match="answer is too large"):
        list(pages.requests(OperatorCalls(Large(0)), ["a"]))
