# SPDX-License-Identifier: Apache-2.0
"""What schedulers have kept of their decisions: all are asked, and a project gets its own, without hosts."""

from __future__ import annotations

import json
from typing import Any

import oslo_messaging
import pytest

from conductor_stub.operators.decisions import DecisionManager
from conductor_stub.operators.tenancy import Tenancy
from fleet import errors
from fleet.context import RequestContext
from tests.worlds.conductor import Conductor

UNSET = errors.ConfigError(option="[decisions] file", reason="is not set on scheduler s2")


def record(at: float, project: str, **more: Any) -> dict[str, Any]:
    """A request id is no part of what a scheduler answers; the fake looks for it."""
    counts = [{"name": "RamFilter", "start": 2, "end": 1}]
    pick = {"instance_uuid": "u", "host": "h1", "nodename": "h1", "weight": 1.0, "alternates": ["h2"]}
    shared = {"flavor": "small", "instances": ["u"], "request_id": "req-1", "scheduler": "s1", "project_id": project}
    details = {"filters": counts, "nearest": [{"host": "h1", "text": "h1 lacks", "shortfalls": []}], "reason_code": "X"}
    return {"at": at, **shared, "outcome": "placed", "picks": [pick], "details": details, **more}


@pytest.fixture
def kept(conductor: Conductor) -> dict[str, Any]:
    """Two schedulers are up."""
    conductor.agents.register_services(
        [{"host": host, "binary": "fleet-scheduler", "topic": "scheduler"} for host in ("s1", "s2")]
    )
    found: dict[str, Any] = {"s1": [], "s2": []}
    conductor.scheduler.kept = found
    return found


def test_all_schedulers_are_asked(conductor: Conductor, kept: dict[str, Any]) -> None:
    """The oldest decision comes first; a scheduler that is silent is named, one that keeps none is not."""
    kept.update(s1=[record(2.0, "web")], s2=[record(1.0, "web"), record(3.0, "other")])
    assert [1.0, 2.0, 3.0] == [each["at"] for each in conductor.operator.list_decisions("req-1")["decisions"]]
    kept.update(s2=oslo_messaging.MessagingTimeout())
    found = conductor.operator.list_decisions("req-1")
    assert ([2.0], ["s2"]) == ([each["at"] for each in found["decisions"]], found["silent"])
    kept.update(s2=UNSET)
    assert [] == conductor.operator.list_decisions("req-1")["silent"]


def test_nothing_is_kept(conductor: Conductor, kept: dict[str, Any]) -> None:
    """If the option of a scheduler is not set, that is the reason."""
    assert [] == conductor.operator.list_decisions("req-9")["decisions"]
    kept.update(s2=UNSET)
    with pytest.raises(errors.ConfigError, match="is not set on scheduler s2"):
        conductor.operator.list_decisions("req-9")


def test_a_project_gets_its_own(conductor: Conductor, kept: dict[str, Any], database: Any) -> None:
    """Without hosts, nodes and schedulers; what is another project's is as if it were not there."""
    refused = record(2.0, "web", outcome="refused", picks=[], error="NoValidHost", message="h1 lacks 5 MB")
    kept.update(s1=[record(1.0, "web"), refused, record(3.0, "other")])
    manager = DecisionManager(database, conductor.scheduler, 60, conductor.clock)  # type: ignore[arg-type]

    def asked(project: str) -> Any:
        return manager.list_decisions(RequestContext(project_id=project, is_admin=False), request_id="req-1")

    found = asked("web")
    message = {"namespace": "operator", "method": "list_decisions"}
    shown = Tenancy(database).release({"project_id": "web", "is_admin": False}, message, found)
    assert [1.0, 2.0] == [each["at"] for each in shown["decisions"]]
    for secret in ("h1", "h2", "s1"):
        assert secret not in json.dumps(shown)
    assert "RamFilter" in json.dumps(shown)
    assert [] == asked("third")["decisions"]
