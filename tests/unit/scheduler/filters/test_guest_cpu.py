# SPDX-License-Identifier: Apache-2.0
"""GuestCpuFilter: hosts that have what a running guest sees of its processor."""

from __future__ import annotations

import json

import pytest

from fleet.json_codec import JSONObject
from scheduler.compute import filters
from tests import factories
from tests.factories import node, request
from tests.unit.scheduler.judging import passed
from tests.unit.scheduler.test_manager import Scheduler, explained


def cpu(*features: str, vendor: str = "Intel") -> str:
    return json.dumps({"arch": "x86_64", "vendor": vendor, "features": list(features)})


HOSTS = (
    node("same", cpu_info=cpu("sse4", "avx2")),
    node("newer", cpu_info=cpu("avx512f", "avx2", "sse4")),
    node("older", cpu_info=cpu("sse4")),
    node("amd", cpu_info=cpu("sse4", "avx2", vendor="AMD")),
    node("unknown", cpu_info=json.dumps({"arch": "x86_64"})),
    node("odd", cpu_info="[[1]]"),
    node("silent", cpu_info=""),
)
ALL = {each.host for each in HOSTS}


@pytest.mark.parametrize(
    ("guest", "expected"),
    [
        (None, ALL),
        ({"vendor": "Intel", "features": ["avx2", "sse4"]}, {"same", "newer"}),
        ({"vendor": "Intel", "features": ["sse4"]}, {"same", "newer", "older"}),
        ({"vendor": "", "features": ["sse4", "avx2"]}, {"same", "newer", "amd"}),
        ({"vendor": "Intel", "features": []}, {"same", "newer", "older"}),
        ({"vendor": "", "features": []}, ALL),
    ],
)
def test_features(guest: JSONObject | None, expected: set[str]) -> None:
    """A host passes that has all features, of the same vendor. A host that reports none has none."""
    hosts = factories.candidates(*HOSTS)
    assert expected == passed(filters.GuestCpuFilter(), hosts, request(guest_cpu=guest))


def test_the_reason() -> None:
    """It names the first features that are missing."""
    scheduler = Scheduler(HOSTS[2], HOSTS[3])
    features = ["a", "avx2", "b", "c", "d", "e", "f", "sse4"]
    answer = explained(scheduler, request(guest_cpu={"vendor": "Intel", "features": features}))
    assert {"GuestCpuFilter": 2} == answer["dropped"]
    assert {
        "older lacks a, avx2, b, c, d and 2 more of the processor that the running guest sees",
        "amd lacks vendor Intel, a, b, c, d and 2 more of the processor that the running guest sees",
    } == {each["text"] for each in answer["nearest"]}


def test_an_answer_is_not_given_to_another_guest() -> None:
    """The two requests differ only in the processor that the guest sees."""
    scheduler = Scheduler(*HOSTS[2:4])

    def chosen(vendor: str) -> str:
        (found,) = scheduler.select(request(guest_cpu={"vendor": vendor, "features": ["sse4"]}))
        return str(found["host"])

    assert ["older", "amd", "older"] == [chosen(vendor) for vendor in ("Intel", "AMD", "Intel")]
