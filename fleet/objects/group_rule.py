# SPDX-License-Identifier: Apache-2.0
"""Rules of a server group over labels of hosts. The hosts with one value of a label are a *failure domain*.

| Policy | What it asks of the group's members |
|---|---|
| ``affinity`` | they share one domain |
| ``anti-affinity`` | a domain has at most ``max_members`` of them |
| ``spread`` | after each placement, its domain has at most ``max_skew`` members more than the emptiest domain |
| ``must``, ``must-not`` | hosts whose label has one of ``values``, or none of them |

``soft-affinity``, ``soft-anti-affinity``, ``soft-spread`` and ``should`` are preferences: they refuse no host. A host
without the label is in no domain: ``must-not`` and ``anti-affinity`` accept it, the other policies that refuse do not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import pydantic

from fleet import errors
from fleet.json_codec import JSONObject
from fleet.objects import fields, host_labels

AFFINITY = "affinity"
ANTI_AFFINITY = "anti-affinity"
SPREAD = "spread"
MUST = "must"
MUST_NOT = "must-not"
SHOULD = "should"
SOFT = "soft-"
#: Beginning of the name of a claim limit: the most members of the group that the host's domain of this label may have.
LIMIT = "group_members:"
#: Of the members among themselves, and of members and hosts.
AMONG_MEMBERS = (AFFINITY, ANTI_AFFINITY, SPREAD)
OF_HOSTS = (MUST, MUST_NOT, SHOULD)
MOST = 8

Policy = Literal[
    "affinity",
    "anti-affinity",
    "spread",
    "soft-affinity",
    "soft-anti-affinity",
    "soft-spread",
    "must",
    "should",
    "must-not",
]


@dataclasses.dataclass(frozen=True)
class GroupRule:
    """:param values: of policies about hosts, at least one; the other policies have none"""

    policy: Policy
    label: host_labels.Key
    max_members: fields.Positive = 1
    max_skew: fields.Positive = 1
    values: Annotated[tuple[host_labels.Value, ...], pydantic.Field(max_length=64)] = ()

    @property
    def is_hard(self) -> bool:
        """True if the rule refuses hosts."""
        return not self.policy.startswith(SOFT) and self.policy != SHOULD

    @property
    def kind(self) -> str:
        """The policy without ``soft-``."""
        return self.policy.removeprefix(SOFT)

    def to_wire(self) -> JSONObject:
        """Return the fields that the policy reads."""
        wire: JSONObject = {"policy": self.policy, "label": self.label}
        if self.policy == ANTI_AFFINITY:
            wire["max_members"] = self.max_members
        elif self.policy == SPREAD:
            wire["max_skew"] = self.max_skew
        elif self.policy in OF_HOSTS:
            wire["values"] = list(self.values)
        return wire

    def __str__(self) -> str:
        """Return the rule in the form of ``fleet group create --rule``."""
        wire = self.to_wire()
        pairs = [(name, value) for name, value in wire.items() if name != "values"]
        return ",".join(f"{name}={value}" for name, value in [*pairs, *(("value", each) for each in self.values)])


Rules = Annotated[list[GroupRule], pydantic.Field(max_length=MOST)]


def parse(data: object, field: str = "rules") -> tuple[GroupRule, ...]:
    """Return the rules that a request or a row has; none for None.

    :raises errors.InvalidInput: naming the field
    """
    found: Sequence[GroupRule] = fields.parse(Rules, data or [], field)
    for number, rule in enumerate(found):
        _check(rule, data[number] if isinstance(data, Sequence) else {}, f"{field}.{number}")
    if len({(rule.policy, rule.label, rule.values) for rule in found}) < len(found):
        raise errors.InvalidInput(field=field, reason="has the same policy for one label twice")
    return tuple(found)


def _check(rule: GroupRule, data: object, field: str) -> None:
    if rule.policy in OF_HOSTS and not rule.values:
        raise errors.InvalidInput(field=f"{field}.values", reason=f"needs at least one value for policy {rule.policy}")
    readable = {"policy", "label", *rule.to_wire()}
    for name in sorted(data) if isinstance(data, Mapping) else ():
        if name not in readable:
            reason = f"is not an option of policy {rule.policy}, which has {', '.join(sorted(readable))}"
            raise errors.InvalidInput(field=f"{field}.{name}", reason=reason)
