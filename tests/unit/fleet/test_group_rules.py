# SPDX-License-Identifier: Apache-2.0
"""Rules of server groups and labels of hosts: what is accepted, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fleet import errors
from fleet.objects import HostReport, group_rule, host_labels
from fleet.objects.group_rule import GroupRule


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ({"policy": "affinity", "label": "rack"}, "policy=affinity,label=rack"),
        ({"policy": "anti-affinity", "label": "rack"}, "policy=anti-affinity,label=rack,max_members=1"),
        ({"policy": "spread", "label": "a.b/c", "max_skew": 2}, "policy=spread,label=a.b/c,max_skew=2"),
        ({"policy": "soft-spread", "label": "rack"}, "policy=soft-spread,label=rack"),
        (
            {"policy": "must", "label": "licence", "values": ["gold", "ä"]},
            "policy=must,label=licence,value=gold,value=ä",
        ),
    ],
)
def test_a_rule_is_stored_and_written_as_it_was_sent(sent: Mapping[str, Any], text: str) -> None:
    """A row has only what the policy reads."""
    (rule,) = group_rule.parse([sent])
    assert (text, (rule,)) == (str(rule), group_rule.parse([rule.to_wire()]))


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ([{"label": "rack"}], "rules.0.policy is required"),
        ([{"policy": "apart", "label": "rack"}], "rules.0.policy must be"),
        ([{"policy": "spread"}], "rules.0.label is required"),
        ([{"policy": "spread", "label": "-rack"}], "rules.0.label must"),
        ([{"policy": "spread", "label": "r" * 64}], "rules.0.label must have at most 63 characters"),
        ([{"policy": "spread", "label": "rack", "max_skew": 0}], "rules.0.max_skew must be greater than or equal to 1"),
        ([{"policy": "spread", "label": "rack", "max_skew": 10**300}], "rules.0.max_skew must"),
        (
            [{"policy": "spread", "label": "rack", "max_members": 2}],
            "rules.0.max_members is not an option of policy spread",
        ),
        ([{"policy": "spread", "label": "rack", "skew": 2}], "rules.0.skew is not an option of policy spread"),
        ([{"policy": "must", "label": "rack"}], "rules.0.values needs at least one value for policy must"),
        ([{"policy": "must", "label": "rack", "values": ["a,b"]}], "rules.0.values.0 must"),
        ([{"policy": "spread", "label": "rack"}] * 2, "rules has the same policy for one label twice"),
        ([{"policy": "spread", "label": f"r{n}"} for n in range(9)], "rules must have at most 8 items"),
        ({"policy": "spread"}, "rules must be a valid list"),
    ],
)
def test_what_is_wrong_is_named(sent: Any, message: str) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        group_rule.parse(sent)
    assert refused.value.message.startswith(message), refused.value.message


def test_no_rules() -> None:
    assert () == group_rule.parse(None) == group_rule.parse([])


@pytest.mark.parametrize(
    ("policy", "hard"),
    [
        ("affinity", True),
        ("spread", True),
        ("must", True),
        ("must-not", True),
        ("should", False),
        ("soft-spread", False),
    ],
)
def test_which_rules_refuse(policy: Any, hard: bool) -> None:
    assert hard is GroupRule(policy, "rack").is_hard


def test_the_administrators_labels_win() -> None:
    """An empty value hides a reported label. What an agent of another kind reports under the name is left out."""
    assert {"power": "p", "rack": "r2"} == host_labels.effective(
        {"rack": "r1", "room": "a", "power": "p", "row": 7}, {"rack": "r2", "room": ""}
    )
    assert {} == host_labels.effective("rack=r1", None)


def test_a_change_of_labels() -> None:
    """None removes the administrator's value, an empty text stays to hide the reported one."""
    assert {"room": "b", "row": ""} == host_labels.changed(
        {"rack": "r1", "room": "a"}, {"rack": None, "room": "b", "row": ""}
    )
    full = {f"k{number}": "v" for number in range(host_labels.MOST)}
    assert full == host_labels.changed(full, {"k0": "v"})
    with pytest.raises(errors.InvalidInput, match="labels would be 33, and a host can have 32"):
        host_labels.changed(full, {"more": "v"})


@pytest.mark.parametrize(
    "labels", [{"rack": ""}, {"rack": "a b"}, {"": "a"}, {"rack": 7}, {"rack": "x" * 64}, ["rack"]]
)
def test_a_report_with_wrong_labels_is_refused(labels: Any) -> None:
    report = {"host": "h", "node": "n", "vcpus": 1, "memory_mb": 1, "local_gb": 1, "stats": {"labels": labels}}
    with pytest.raises(errors.InvalidInput, match="report.stats.labels"):
        HostReport.from_wire(report)
