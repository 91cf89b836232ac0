# SPDX-License-Identifier: Apache-2.0
"""Permissions of each role, as rules of oslo.policy. ``[oslo_policy] policy_file`` may change them.

Each responder names its rule (``fleet_api.requests.guard``); ``rules.OTHERS`` is for administrators only. A project sees
only its own servers; no rule changes that: ``scope``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oslo_config import cfg
from oslo_policy import opts as policy_opts
from oslo_policy import policy

from fleet_api.access import compute_rules, rules, volume_rules
from fleet_api.requests import guard

_OWN = [
    rules.rule("fleet:session:get", rules.READER, "See who one is: user, project and roles.", f"GET {rules.SESSION}"),
    rules.rule(
        "fleet:events",
        rules.READER,
        "Follow what happens to instances and volumes of the own project.",
        "GET /fleet/v1/events",
        *rules.calls("list_events"),
    ),
    rules.rule(
        rules.OTHERS,
        rules.ADMIN,
        "All else: hosts, services, aggregates, changes of flavors, and all under /fleet/v1.",
        "GET /fleet/v1/...",
    ),
]
RULES = [*compute_rules.RULES, *volume_rules.RULES, *_OWN]
_READING = frozenset(each.name for each in RULES if each.check_str == rules.READER)


def documented() -> dict[tuple[str, str], str]:
    """Return the rule of each method and path, as the sample of the policy file has them. Calls have no other rules."""
    return {(operation["method"], operation["path"]): rule.name for rule in RULES for operation in rule.operations}


class Policies:
    """Decides by route and role.

    :param guarded: the rule that each responder names, by method and route
    :raises ValueError: there is no such rule
    """

    def __init__(self, conf: cfg.ConfigOpts, guarded: Mapping[tuple[str, str], str]) -> None:
        unknown = set(guarded.values()) - {rule.name for rule in RULES} - {guard.NOBODY}
        if unknown:
            raise ValueError(f"responders name rules that are not there: {sorted(unknown)}")
        policy_opts.set_defaults(conf)
        self._enforcer = policy.Enforcer(conf)  # without a file the defaults hold
        self._enforcer.register_defaults(RULES)
        calls = {key: rule for key, rule in documented().items() if key[1].startswith(f"{rules.CALLS}/")}
        self._by_route = {**guarded, **calls}

    def is_served(self, method: str, route: str) -> bool:
        """Return True if a responder answers the method of the route; otherwise the answer is 405 for every sender."""
        return (_read(method), route) in self._by_route

    def rule_of(self, method: str, route: str, path: str) -> str:
        """:param route: with the names of parameters in place of their values; calls have no such rules"""
        asked = path if route.startswith(f"{rules.CALLS}/") else route
        return self._by_route.get((_read(method), asked), rules.OTHERS)

    def calls(self, roles: Iterable[str], project: str | None) -> dict[str, bool]:
        """Return which calls of the contract these roles may make, by ``topic/method``; ``*``: those that no rule names."""
        given = list(roles)
        allowed = {rule.name: self.allows(rule.name, given, project) for rule in RULES}
        beginning = f"{rules.CALLS}/"
        found = {
            path.removeprefix(beginning): allowed[rule]
            for (_method, path), rule in self._by_route.items()
            if path.startswith(beginning)
        }
        return {**found, "*": allowed[rules.OTHERS]}

    @staticmethod
    def only_reads(rule: str) -> bool:
        """Return True for a rule whose requests change nothing: by default it allows them to readers."""
        return rule in _READING

    def allows(self, rule: str, roles: Iterable[str], project: str | None) -> bool:
        """:param rule: the name of one of RULES"""
        return bool(self._enforcer.authorize(rule, {}, {"roles": list(roles), "project_id": project}))


def _read(method: str) -> str:
    return "GET" if method == "HEAD" else method


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """Return the rules, for oslopolicy-sample-generator."""
    return RULES
