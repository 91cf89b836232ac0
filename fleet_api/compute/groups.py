# SPDX-License-Identifier: Apache-2.0
"""Server groups. :mod:`fleet_api.application` names their paths."""

from __future__ import annotations

import dataclasses
from typing import Annotated, NotRequired

import falcon
from typing_extensions import TypedDict

from fleet import errors
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import fields, group_rule, host_labels, instance_group
from fleet_api.access import identity
from fleet_api.access.identity import ADMIN
from fleet_api.requests import answers, bodies, guard, paging
from fleet_api.requests.conductor import Conductor

_MOST = 1000
#: From this version on a group has one policy with rules; before, a list of policies.
_ONE_POLICY = (2, 64)
#: Versions from which a group has its project and user.
_OWNED = (2, 13)


_Count = Annotated[int, fields.WholeNumber(1, fields.INT32_MAX)]


@dataclasses.dataclass(frozen=True)
class _Rules:
    __pydantic_config__ = bodies.STRICT

    #: Clients send numbers as text.
    max_server_per_host: _Count | None = None
    #: With a label the policy holds among failure domains in place of hosts; with max_skew it is a spread.
    label: host_labels.Key | None = None
    max_skew: _Count | None = None


@dataclasses.dataclass(frozen=True)
class _New:
    __pydantic_config__ = bodies.STRICT

    name: fields.Name
    policy: instance_group.Policy | None = None
    policies: list[instance_group.Policy] | None = None
    rules: _Rules | None = None


class GroupShown(TypedDict):
    id: str
    name: str
    members: list[str]
    policies: NotRequired[Annotated[list[str], answers.until("2.64")]]
    metadata: NotRequired[Annotated[dict[str, str], answers.until("2.64")]]
    policy: NotRequired[Annotated[str, answers.since("2.64")]]
    rules: NotRequired[Annotated[dict[str, int | str], answers.since("2.64")]]
    project_id: NotRequired[Annotated[str, answers.since("2.13")]]
    user_id: NotRequired[Annotated[str, answers.since("2.13")]]


_ONE = answers.Answer({"server_group": GroupShown})


def view(request: falcon.Request, group: JSONMapping) -> GroupShown:
    shown: GroupShown = {"id": group["uuid"], "name": group["name"], "members": group["members"]}
    if request.context.version >= _OWNED:
        shown["project_id"], shown["user_id"] = group["project_id"] or ADMIN, group.get("user_id") or ADMIN
    if request.context.version < _ONE_POLICY:
        return {**shown, "policies": [_policy(group)], "metadata": {}}
    return {**shown, "policy": _policy(group), "rules": _rules(group)}


def _policy(group: JSONMapping) -> str:
    """The policy over hosts. Of a group with rules only, nova's word for the first of them."""
    if group["policy"] != instance_group.NONE:
        return str(group["policy"])
    first = str(group["rules"][0]["policy"])
    return first.replace(group_rule.SPREAD, group_rule.ANTI_AFFINITY)


def _rules(group: JSONMapping) -> dict[str, int | str]:
    """The options of the policy, in nova's flat form. The first rule over a label is shown, the others are not."""
    if group["policy"] == group_rule.ANTI_AFFINITY:
        return {"max_server_per_host": group["max_server_per_host"]}
    if group["policy"] != instance_group.NONE:
        return {}
    first = group["rules"][0]
    most = {"max_server_per_host": first["max_members"]} if "max_members" in first else {}
    skew = {"max_skew": first["max_skew"]} if "max_skew" in first else {}
    return {"label": first["label"], **most, **skew}


def _wanted(policy: instance_group.Policy, rules: _Rules) -> tuple[str, JSONObject]:
    """Return the policy over hosts, and the other arguments of ``create_group``.

    :raises errors.InvalidInput: rules that the policy does not have
    """
    hard = policy == group_rule.ANTI_AFFINITY
    if rules.max_server_per_host is not None and (not hard or rules.max_skew is not None):
        raise errors.InvalidInput(
            field="server_group.rules.max_server_per_host", reason="is for policy anti-affinity without max_skew only"
        )
    most = rules.max_server_per_host or 1
    if rules.label is None:
        if rules.max_skew is not None:
            raise errors.InvalidInput(field="server_group.rules.max_skew", reason="needs a label, such as rack")
        return policy, {"max_server_per_host": most}
    rule: JSONObject = {"policy": policy, "label": rules.label}
    if rules.max_skew is not None:
        if not policy.endswith(group_rule.ANTI_AFFINITY):
            reason = "is for policies anti-affinity and soft-anti-affinity only"
            raise errors.InvalidInput(field="server_group.rules.max_skew", reason=reason)
        rule["policy"] = policy.replace(group_rule.ANTI_AFFINITY, group_rule.SPREAD)
        if hard:
            rule["max_skew"] = rules.max_skew
    elif hard:
        rule["max_members"] = most
    return instance_group.NONE, {"rules": [rule]}


class Groups:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("compute:server_groups:get")
    @answers.gives(answers.Answer({"server_groups": list[GroupShown]}))
    @bodies.asks("limit", "offset", "all_projects")
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        caller = request.context.caller
        everywhere = request.context.is_open or (bodies.flag(request, "all_projects") and identity.sees_all(request))
        of_project = {} if everywhere else {"project_id": caller.project_id}
        found = self._conductor.operator(request).list_groups(**of_project)
        start = bodies.number(request, "offset") or 0
        part = found[start : start + paging.limit_of(request, _MOST)]
        response.media = {"server_groups": [view(request, each) for each in part]}

    @guard.by("compute:server_groups:change")
    @answers.gives(_ONE)
    @bodies.takes(bodies.Body({"server_group": _New}))
    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        wanted = bodies.part(request, "server_group", _New)
        policies = [wanted.policy] if wanted.policy else wanted.policies or []
        if len(policies) != 1:
            raise errors.InvalidInput(field="server_group.policy", reason="is required, and there can be only one")
        policy, options = _wanted(policies[0], wanted.rules or _Rules())
        made = self._conductor.operator(request).create_group(wanted.name, policy, **options)
        response.media = {"server_group": view(request, made)}

    @guard.by("compute:server_groups:get")
    @answers.gives(_ONE)
    def on_get_one(self, request: falcon.Request, response: falcon.Response, group_id: str) -> None:
        response.media = {"server_group": view(request, self._find(request, group_id))}

    @guard.by("compute:server_groups:change")
    @answers.gives(answers.NOTHING, 204)
    def on_delete_one(self, request: falcon.Request, response: falcon.Response, group_id: str) -> None:
        self._conductor.operator(request).delete_group(name=self._find(request, group_id)["uuid"])
        response.status = falcon.HTTP_204

    def _find(self, request: falcon.Request, group_id: str) -> JSONMapping:
        """Find a group by uuid only: clients look up names in the list. :raises errors.NotFound:"""
        found: JSONMapping = self._conductor.operator(request).show_group(name=group_id)
        if found["uuid"] != group_id:
            raise errors.NotFound(kind="Server group", name=group_id)
        return found
