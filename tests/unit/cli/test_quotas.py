# SPDX-License-Identifier: Apache-2.0
"""``fleet quota``: what is asked of the conductor, and shown."""

from __future__ import annotations

import json

import pytest

from fleet.objects.quota import Quota
from tests.unit.cli import fakes

SHOWN = {
    "project_id": "web",
    "limits": Quota(cores=8).to_wire(),
    "own": {"cores": 8},
    "default": Quota().to_wire(),
    "used": dict.fromkeys(Quota().to_wire(), 3),
}


def test_a_project_is_shown_by_resource(run) -> None:
    """Each with its limit, what is used, and for whom the limit is set."""
    conductor = fakes.Conductor()
    conductor.answers["show_quota"] = SHOWN
    status, out, _err = run(conductor, "quota", "show", "web", "-f", "json")
    lines = {each["resource"]: each for each in json.loads(out)}
    assert (0, ["instances", "cores", "ram", "local_gb", "server_groups", "volumes", "gigabytes"]) == (
        status,
        list(lines),
    )
    assert [8, 3, "project"] == [lines["cores"][name] for name in ("quota", "used", "set_for")]
    assert [-1, "all"] == [lines["ram"][name] for name in ("quota", "set_for")]


def test_a_project_must_be_named(run) -> None:
    """Over the broker nobody signs in, so no project is meant; the argument is named. Over HTTP it may be left out."""
    conductor = fakes.Conductor()
    conductor.answers["show_quota"] = SHOWN
    assert (1, "project is required: fleet quota show PROJECT\n") == run(conductor, "quota", "show")[::2]
    assert [] == conductor.calls
    conductor.uses_broker = False
    assert 0 == run(conductor, "quota", "show")[0]
    assert [("show_quota", {})] == conductor.calls


def test_only_what_is_named_is_changed(run) -> None:
    """-1 is a limit like others."""
    conductor = fakes.Conductor()
    conductor.answers["set_quota"] = SHOWN
    assert 0 == run(conductor, "quota", "set", "web", "--cores", "8", "--server-groups", "-1")[0]
    assert [("set_quota", {"project_id": "web", "limits": {"cores": 8, "server_groups": -1}})] == conductor.calls


def test_a_change_names_a_limit(run) -> None:
    """Nothing is asked of the conductor otherwise, nor with a number that is no limit."""
    conductor = fakes.Conductor()
    status, _out, err = run(conductor, "quota", "set", "web")
    assert (1, True, []) == (status, "nothing to change" in err, conductor.calls)
    with pytest.raises(SystemExit):
        run(conductor, "quota", "set", "web", "--ram", "-2")
    assert [] == conductor.calls


def test_projects_with_limits_are_listed(run) -> None:
    """One line for each."""
    conductor = fakes.Conductor()
    conductor.answers["list_quotas"] = [{"project_id": "web", "limits": Quota(cores=8).to_wire(), "own": {"cores": 8}}]
    _status, out, _err = run(conductor, "quota", "list", "-f", "json")
    assert [{"project_id": "web", **Quota(cores=8).to_wire()}] == json.loads(out)
