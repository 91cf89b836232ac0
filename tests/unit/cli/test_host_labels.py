# SPDX-License-Identifier: Apache-2.0
"""Labels of hosts and rules of groups on the command line: the tree of hosts, ``host set``, ``group create --rule``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.cli import fakes
from tests.unit.cli.test_lists import a_host

#: Two rooms; room a has two racks, host h4 has no label, and h3 is down.
LABELS = {
    "h1": {"room": "a", "rack": "r1"},
    "h2": {"room": "a", "rack": "r2"},
    "h3": {"room": "b", "rack": "r3"},
    "h4": {},
}


def hosts() -> list[dict[str, Any]]:
    sizes = {
        "vcpus": 8,
        "vcpus_used": 2,
        "memory_mb": 4096,
        "memory_mb_used": 1024,
        "local_gb": 100,
        "local_gb_used": 10,
    }
    return [
        {**a_host(name), **sizes, "labels": labels, "running_vms": 1, "state": "down" if name == "h3" else "up"}
        for name, labels in LABELS.items()
    ]


def tree(run: Any, *argv: str) -> list[dict[str, Any]]:
    conductor = fakes.Conductor()
    conductor.answers["list_hosts"] = hosts()
    status, printed, _remarks = run(conductor, "host", "list", *argv, "-f", "json")
    assert 0 == status
    found: list[dict[str, Any]] = json.loads(printed)
    return found


def test_the_tree_of_all_labels(run: Any) -> None:
    """The label with the fewest values is the root; hosts without it come last."""
    found = [(each["tree"], each["hosts"], each["vcpus"]) for each in tree(run, "--tree")]
    assert [
        *(("room=a", 2, "4/16"), ("  rack=r1", 1, "2/8"), ("    h1", 1, "2/8")),
        *(("  rack=r2", 1, "2/8"), ("    h2", 1, "2/8")),
        *(("room=b", 1, "2/8"), ("  rack=r3", 1, "2/8"), ("    h3", 1, "2/8")),
        *(("room=none", 1, "2/8"), ("  rack=none", 1, "2/8"), ("    h4", 1, "2/8")),
    ] == found


def test_sums_and_states_of_a_domain(run: Any) -> None:
    by_rack = {each["tree"]: each for each in tree(run, "--tree", "rack")}
    assert ("down", "1/4", 1) == tuple(by_rack["rack=r3"][name] for name in ("state", "memory_gb", "vms"))
    rooms = {each["tree"]: each["state"] for each in tree(run, "--tree", "room,rack")}
    assert ("up", "down") == (rooms["room=a"], rooms["room=b"])


def test_a_label_that_no_host_has(run: Any) -> None:
    conductor = fakes.Conductor()
    conductor.answers["list_hosts"] = hosts()
    status, _printed, said = run(conductor, "host", "list", "--tree", "row")
    assert (1, True) == (status, "Host with label row" in said)


def test_set_and_unset(run: Any) -> None:
    """An empty value hides what the host reports."""
    conductor = fakes.Conductor()
    conductor.answers["set_host_labels"] = {"rack": "r1"}
    _status, printed, _said = run(conductor, "host", "set", "--label", "rack=r1", "--label", "room=", "h1")
    assert "rack=r1" in printed
    run(conductor, "host", "unset", "--label", "rack", "h1")
    asked = [arguments for method, arguments in conductor.calls if method == "set_host_labels"]
    assert [{"host": "h1", "labels": {"rack": "r1", "room": ""}}, {"host": "h1", "labels": {"rack": None}}] == asked


GROUP = {
    "name": "g", "uuid": "u", "policy": "none", "max_server_per_host": 1, "project_id": None, "members": [],
    "rules": [{"policy": "spread", "label": "rack", "max_skew": 2}],
}  # fmt: skip


def test_a_group_with_rules(run: Any) -> None:
    """Without --policy the group has rules only; the rules are shown as they are written."""
    conductor = fakes.Conductor()
    conductor.answers["create_group"] = GROUP
    rule, other = "policy=spread,label=rack,max_skew=2", "policy=must,label=licence,value=gold,value=silver"
    status, printed, _said = run(conductor, "group", "create", "g", "--rule", rule, "--rule", other)
    assert (0, True) == (status, rule in printed)
    (_method, asked) = conductor.calls[-1]
    assert {
        "name": "g",
        "policy": "none",
        "max_server_per_host": 1,
        "rules": [
            {"policy": "spread", "label": "rack", "max_skew": 2},
            {"policy": "must", "label": "licence", "values": ["gold", "silver"]},
        ],
    } == asked


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("spread", "'spread' is not KEY=VALUE"),
        ("policy=spread", "rule.0.label is required"),
        ("policy=spread,label=rack,skew=1", "'skew' is not one of policy, label"),
        ("policy=spread,label=rack,max_skew=x", "must be a whole number from 1, got 'x'"),
        ("policy=must,label=rack", "needs at least one value"),
    ],
)
def test_a_wrong_rule(run: Any, capsys: pytest.CaptureFixture[str], rule: str, said: str) -> None:
    with pytest.raises(SystemExit) as refused:
        run(None, "group", "create", "g", "--rule", rule)
    assert (2, True) == (refused.value.code, said in capsys.readouterr().err)


def test_neither_policy_nor_rule(run: Any) -> None:
    status, _printed, said = run(fakes.Conductor(), "group", "create", "g")
    assert (1, True) == (status, "use --policy, or --rule, or both" in said)
