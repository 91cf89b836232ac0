# SPDX-License-Identifier: Apache-2.0
"""The doctor over HTTP: the findings of ``fleet doctor``. The conductor is a fake."""

from __future__ import annotations

from typing import Any

import oslo_messaging
import pytest
from falcon import testing

from fleet.context import RequestContext
from tests.worlds.http_conductor import HttpConductor

SERVICE = {
    "binary": "fleet-compute",
    "host": "h1",
    "state": "up",
    "status": "enabled",
    "disabled_reason": None,
    "driver": "fake",
}
FINDINGS = {
    "host": "c1",
    "now": "2026-01-01T00:00:00",
    "database": {"engine": "sqlite", "took_s": 0.001, "version": "7", "expected": "7"},
    "overdue": 2,
    "orphans": [],
    "ahead": [],
}


class PingedConductor(HttpConductor):
    """A conductor that answers, unless ``lost``. ``pinged`` are the topics."""

    def __init__(self) -> None:
        recoveries = {"recoveries": [], "domains": [], "paused": False}
        lists = {"list_services": [SERVICE], "list_maintenances": [], "list_recoveries": recoveries}
        super().__init__(examine=FINDINGS, **lists)
        self.lost = False
        self.pinged: list[str] = []
        self.calls = self  # type: ignore[assignment]

    def ping(self, context: RequestContext, topic: str) -> dict[str, str]:
        self.pinged.append(topic)
        if self.lost:
            raise oslo_messaging.MessagingTimeout("late")
        return {"service": topic, "arg": topic}

    def describe_host(self, context: RequestContext, host: str) -> Any:
        raise AssertionError("no agent is asked")

    def describe_filters(self, context: RequestContext) -> dict[str, Any]:
        return {"left_out": [{"filter": "AvailabilityZoneFilter", "unjudged": ["availability_zone"]}]}


@pytest.fixture
def conductor() -> PingedConductor:
    return PingedConductor()


def test_what_is_wrong_and_what_to_do(client: testing.TestClient, conductor: PingedConductor) -> None:
    """Each finding with its level; advice where something is wrong."""
    found = {each["check"]: each for each in client.simulate_get("/fleet/v1/doctor").json["findings"]}
    assert ("fail", "ok", "warn", "warn", "ok") == tuple(
        found[check]["level"] for check in ("builds", "schema", "driver", "filters", "conductor")
    )
    assert "2 steps are overdue" in found["builds"]["found"]
    assert "read their logs" in found["builds"]["fix"]
    assert ["conductor", "scheduler"] == conductor.pinged


def test_a_conductor_that_does_not_answer(client: testing.TestClient, conductor: PingedConductor) -> None:
    """That is a finding, and no failure of the request."""
    conductor.lost = True
    answer = client.simulate_get("/fleet/v1/doctor")
    first = answer.json["findings"][0]
    assert (200, "conductor", "fail") == (answer.status_code, first["check"], first["level"])
