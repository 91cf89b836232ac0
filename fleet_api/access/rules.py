# SPDX-License-Identifier: Apache-2.0
"""Names of rules, the roles that rules allow, and how a rule is written.

:mod:`fleet_api.access.compute_rules` and :mod:`fleet_api.access.volume_rules` write the rules; who looks one up names it
by these constants.
"""

from __future__ import annotations

from oslo_policy import policy

READER = "role:reader or role:member or role:admin"
MEMBER = "role:member or role:admin"
ADMIN = "role:admin"
#: The rule of every route that no other rule names.
OTHERS = "fleet:others"
ALL_PROJECTS = "compute:servers:all_projects"
ALL_QUOTAS = "compute:quotas:all_projects"
ZONES = "compute:zones:get"
FORCED_HOST = "compute:servers:create:forced_host"
FREE_CHOICE = "compute:servers:create:free_choice"
MIGRATE, EVACUATE = "compute:servers:action:migrate", "compute:servers:action:evacuate"
ATTACH, DELETE = "compute:attachments:change", "compute:servers:delete"
MIGRATE_LIVE = "compute:servers:action:migrate_live"
RESET_STATE = "compute:servers:action:reset_state"
SHELVE_OFFLOAD, UNSHELVE_HOST = "compute:servers:action:shelve_offload", "compute:servers:action:unshelve_host"
ALL_VOLUMES, MIGRATE_VOLUME = "volume:all_projects", "volume:action:migrate"
FORCE_DELETE_VOLUME, MANAGE_VOLUME = "volume:action:force_delete", "volume:manage"
#: Rules of requests for which fleet-api asks the conductor as the administrator. All others are asked as the project.
AS_ADMINISTRATOR = frozenset(
    {
        *(
            OTHERS,
            ALL_PROJECTS,
            ALL_QUOTAS,
            FORCED_HOST,
            MIGRATE,
            MIGRATE_LIVE,
            EVACUATE,
            RESET_STATE,
            SHELVE_OFFLOAD,
            UNSHELVE_HOST,
            ZONES,
            "compute:quotas:update",
        ),
        *(ALL_VOLUMES, MIGRATE_VOLUME, FORCE_DELETE_VOLUME, MANAGE_VOLUME),
    }
)
#: Rules of requests in which a caller with FREE_CHOICE may choose more than others.
OF_CHOICES = frozenset({"compute:servers:create", "compute:servers:action", "volume:change"})
#: Begins the rules about volumes.
OF_VOLUMES = "volume:"
ROOT = "/v2.1"
#: The document of the API, and where browsers sign in if keystone knows the users.
DOCUMENT, SESSION = "/fleet/v1/openapi.json", "/fleet/v1/session"
#: Requests that need no user: the documents of discovery, that of the API, and signing in and out.
PUBLIC = frozenset(
    {*(("GET", path) for path in ("/", "/v2", ROOT, "/v3", "/v2.0", DOCUMENT)), ("POST", SESSION), ("DELETE", SESSION)}
)
#: Below it are the calls of the ``fleet`` command, by topic and method of the wire contract.
CALLS = "/fleet/v1/calls"


def rule(name: str, check: str, description: str, *operations: str) -> policy.DocumentedRuleDefault:
    """:param operations: ``METHOD /path`` below the root of the compute API, or absolute with ``/fleet``"""
    pairs = [each.split(" ", 1) for each in operations]
    return policy.DocumentedRuleDefault(
        name, check, description, [{"method": method, "path": _absolute(path)} for method, path in pairs]
    )


def _absolute(path: str) -> str:
    return path if path.startswith(("/fleet/", "/v2", "/v3")) else f"{ROOT}{path}"


def calls(*methods: str, topic: str = "operator") -> list[str]:
    """The operations by which the ``fleet`` command does over HTTP what the rule is about."""
    return [f"POST {CALLS}/{topic}/{method}" for method in methods]
