# SPDX-License-Identifier: Apache-2.0
"""``fleet event list --admin``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.cli import fakes

ACT = {
    "act": "service.disable",
    "subject": "fleet-compute on h1",
    "changes": {"disabled": [False, True], "disabled_reason": [None, "new disk"]},
    "user_id": "carl",
    "project_id": None,
    "request_id": "req-1",
    "created_at": "2026-11-24T10:00:00Z",
}


def test_people_read_from_and_to_and_programs_get_everything(run: Any) -> None:
    conductor = fakes.Conductor()
    conductor.answers["list_acts"] = [ACT]
    _status, out, _err = run(conductor, "event", "list", "--admin", "--limit", "7")
    assert [("list_acts", {"limit": 7})] == conductor.calls
    words = " ".join(out.replace("|", " ").split())
    assert all(
        told in words
        for told in ("service.disable", "by carl", "disabled: no -> yes", "disabled_reason: - -> new disk")
    )
    _status, out, _err = run(conductor, "event", "list", "--admin", "-f", "json")
    (shown,) = json.loads(out)
    assert (ACT["changes"], "req-1") == (shown["changes"], shown["request_id"])


@pytest.mark.parametrize("limit", ["0", "1001"])
def test_a_limit_is_what_one_answer_may_have(run: Any, capsys: pytest.CaptureFixture[str], limit: str) -> None:
    """The refusal names the option."""
    with pytest.raises(SystemExit):
        run(fakes.Conductor(), "event", "list", "--admin", "--limit", limit)
    assert "argument --limit: must be" in capsys.readouterr().err


def test_events_of_a_host(run: Any) -> None:
    """An unknown one is told; a host, or a backend, that is known may have none."""
    conductor = fakes.Conductor()
    conductor.answers.update(list_events={"events": [], "position": {}}, list_host_states={}, list_services=[])
    status, _out, err = run(conductor, "event", "list", "--host", "nosuch")
    assert (1, True) == (status, "Host nosuch could not be found." in err)
    conductor.answers["list_services"] = [{"host": "m1@fast", "binary": "fleet-volume"}]
    assert "There are no events.\n" == run(conductor, "event", "list", "--host", "m1@fast#pool")[1]
    conductor.answers["list_host_states"] = {"h1": ["up", "enabled"]}
    assert "There are no events.\n" == run(conductor, "event", "list", "--host", "h1")[1]


EVENT = {
    "id": 1,
    "kind": "instance",
    "uuid": "u",
    "name": "web",
    "project_id": "p",
    "event": "spawn",
    "attempt": 1,
    "host": "h1",
    "step": "spawn",
    "result": "NoSpace",
    "message": "disk is full",
    "duration_s": 1.5,
    "request_id": "req-1",
    "created_at": "2026-11-24T10:00:00Z",
}


def test_without_admin_the_newest_event_is_first(run: Any) -> None:
    conductor = fakes.Conductor()
    conductor.answers["list_events"] = {"events": [{**EVENT, "name": "old"}, EVENT], "position": {}}
    _status, out, _err = run(conductor, "event", "list", "--host", "h1", "-f", "json")
    assert [("list_events", {"last": 50, "host": "h1"})] == conductor.calls
    assert ["web", "old"] == [each["name"] for each in json.loads(out)]
    _status, out, _err = run(conductor, "event", "list")
    assert "NoSpace: disk is full" in " ".join(out.replace("|", " ").split())


def test_acts_have_no_host(run: Any) -> None:
    status, _out, err = run(fakes.Conductor(), "event", "list", "--admin", "--host", "h1")
    assert (1, True) == (status, "--host" in err)
