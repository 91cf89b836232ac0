# SPDX-License-Identifier: Apache-2.0
"""Permissions of each role, as rules of oslo.policy. ``[oslo_policy] policy_file`` may change them.

Each responder names its rule (``fleet_api.requests.guard``); OTHERS is for administrators only. A project sees only its own
servers; no rule changes that: ``scope``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oslo_config import cfg
from oslo_policy import opts as policy_opts
from oslo_policy import policy

from fleet_api.requests import guard

_READER = "role:reader or role:member or role:admin"
_MEMBER = "role:member or role:admin"
_ADMIN = "role:admin"
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
_ROOT = "/v2.1"
#: The document of the API, and where browsers sign in if keystone knows the users.
DOCUMENT, SESSION = "/fleet/v1/openapi.json", "/fleet/v1/session"
#: Requests that need no user: the documents of discovery, that of the API, and signing in and out.
PUBLIC = frozenset(
    {*(("GET", path) for path in ("/", "/v2", _ROOT, "/v3", "/v2.0", DOCUMENT)), ("POST", SESSION), ("DELETE", SESSION)}
)
#: Below it are the calls of the ``fleet`` command, by topic and method of the wire contract.
CALLS = "/fleet/v1/calls"


def _rule(name: str, check: str, description: str, *operations: str) -> policy.DocumentedRuleDefault:
    """:param operations: ``METHOD /path`` below the root of the compute API, or absolute with ``/fleet``"""
    pairs = [each.split(" ", 1) for each in operations]
    return policy.DocumentedRuleDefault(
        name, check, description, [{"method": method, "path": _absolute(path)} for method, path in pairs]
    )


def _absolute(path: str) -> str:
    return path if path.startswith(("/fleet/", "/v2", "/v3")) else f"{_ROOT}{path}"


def _calls(*methods: str, topic: str = "operator") -> list[str]:
    """The operations by which the ``fleet`` command does over HTTP what the rule is about."""
    return [f"POST {CALLS}/{topic}/{method}" for method in methods]


_IMAGES = [f"GET {root}/images{one}" for root in ("/v2", _ROOT, f"{_ROOT}/v2") for one in ("", "/{image_id}")]
_NETWORKS = [
    f"GET {root}/{each}"
    for root in ("/v2.0", _ROOT)
    for kind in ("network", "subnet", "port")
    for each in (f"{kind}s", f"{kind}s/{{{kind}_id}}")
]
RULES = [
    _rule("fleet:session:get", _READER, "See who one is: user, project and roles.", f"GET {SESSION}"),
    _rule(
        "compute:servers:get",
        _READER,
        "List and show servers of the own project, and what was done with them.",
        "GET /servers",
        "GET /servers/detail",
        "GET /servers/{server_id}",
        "GET /servers/{server_id}/metadata",
        "GET /servers/{server_id}/metadata/{key}",
        "GET /servers/{server_id}/tags",
        "GET /servers/{server_id}/tags/{tag}",
        "GET /servers/{server_id}/os-interface",
        "GET /servers/{server_id}/ips",
        "GET /servers/{server_id}/ips/{network}",
        "GET /servers/{server_id}/os-security-groups",
        "GET /servers/{server_id}/os-instance-actions",
        "GET /servers/{server_id}/os-instance-actions/{request_id}",
        *_calls(
            *("list_instances", "search_instances", "show_instance", "newest_faults", "list_migrations", "list_queue"),
            "list_decisions",
        ),
    ),
    _rule(
        ALL_PROJECTS, _ADMIN, "List and show servers of all projects, with their hosts.", "GET /servers?all_tenants=1"
    ),
    _rule(
        "compute:servers:create",
        _MEMBER,
        "Create servers in the own project.",
        "POST /servers",
        *_calls("create", topic="compute_task"),
    ),
    _rule(
        FREE_CHOICE,
        _ADMIN,
        "Create and resize servers with sizes, extra specs and image properties of one's own, with hosts to leave out, and "
        "with the hint query. Other users name a flavor and an image.",
        "POST /servers (with more than a flavor and an image)",
    ),
    _rule(FORCED_HOST, _ADMIN, "Name the host of a server; no filter then decides.", "POST /servers (with a host)"),
    _rule(
        "compute:servers:update",
        _MEMBER,
        "Change name, description, metadata and tags of servers of the own project.",
        "PUT /servers/{server_id}",
        "POST /servers/{server_id}/metadata",
        "PUT /servers/{server_id}/metadata",
        "PUT /servers/{server_id}/metadata/{key}",
        "DELETE /servers/{server_id}/metadata/{key}",
        "PUT /servers/{server_id}/tags",
        "DELETE /servers/{server_id}/tags",
        "PUT /servers/{server_id}/tags/{tag}",
        "DELETE /servers/{server_id}/tags/{tag}",
        *_calls("update_instance"),
    ),
    _rule(
        DELETE,
        _MEMBER,
        "Delete servers of the own project.",
        "DELETE /servers/{server_id}",
        *_calls("terminate_instances", topic="compute_task"),
    ),
    _rule(
        "compute:servers:action",
        _MEMBER,
        "Switch, resize, rebuild, shelve and lock it (stop, start, reboot, suspend, resume, confirm, revert, rebuild, "
        "shelve, unshelve, lock, unlock), and read consoles.",
        "POST /servers/{server_id}/action",
        *_calls("stop_instance", "start_instance", "reboot_instance", "get_console_output"),
        *_calls("suspend_instance", "resume_instance", "lock_instance", "unlock_instance"),
        *_calls("rebuild_instance", "shelve_instance", "unshelve_instance"),
        *_calls("resize_instance", "confirm_resize", "revert_resize"),
    ),
    _rule(
        MIGRATE,
        _ADMIN,
        "Move a server to another host.",
        "POST /servers/{server_id}/action (migrate)",
    ),
    _rule(
        MIGRATE_LIVE,
        _ADMIN,
        "Move a server to another host while it runs.",
        "POST /servers/{server_id}/action (os-migrateLive)",
    ),
    _rule(
        EVACUATE,
        _ADMIN,
        "Build a server of a dead host elsewhere.",
        "POST /servers/{server_id}/action (evacuate)",
    ),
    _rule(
        SHELVE_OFFLOAD,
        _ADMIN,
        "Let a shelved server give its host back before its time.",
        "POST /servers/{server_id}/action (shelveOffload)",
    ),
    _rule(
        UNSHELVE_HOST,
        _ADMIN,
        "Name the only host to consider for a server that is unshelved; it must pass the filters.",
        "POST /servers/{server_id}/action (unshelve, with a host)",
    ),
    _rule(
        RESET_STATE,
        _ADMIN,
        "Set the state of a server to active or error.",
        "POST /servers/{server_id}/action (os-resetState)",
    ),
    _rule(
        "compute:flavors:get",
        _READER,
        "List and show flavors.",
        "GET /flavors",
        "GET /flavors/detail",
        "GET /flavors/{flavor_id}",
        "GET /flavors/{flavor_id}/os-extra_specs",
        "GET /flavors/{flavor_id}/os-extra_specs/{key}",
        *_calls("list_flavors", "show_flavor"),
    ),
    _rule("compute:images:get", _READER, "List and show images.", *_IMAGES, *_calls("list_images", "show_image")),
    _rule(
        "compute:keypairs:get",
        _READER,
        "List and show the own key pairs.",
        "GET /os-keypairs",
        "GET /os-keypairs/{name}",
        *_calls("list_key_pairs", "show_key_pair"),
    ),
    _rule(
        "compute:keypairs:change",
        _MEMBER,
        "Create and delete own key pairs.",
        "POST /os-keypairs",
        "DELETE /os-keypairs/{name}",
        *_calls("create_key_pair", "delete_key_pair"),
    ),
    _rule(
        "network:get",
        _READER,
        "List and show the networks that the own project may use, and the addresses of its servers.",
        *_NETWORKS,
        *_calls("list_networks", "show_network"),
    ),
    _rule(
        ZONES,
        _READER,
        "List availability zones, without their hosts.",
        "GET /os-availability-zone",
        "GET /v3/os-availability-zone",
    ),
    _rule(
        "compute:server_groups:get",
        _READER,
        "List and show server groups of the own project.",
        "GET /os-server-groups",
        "GET /os-server-groups/{group_id}",
        *_calls("list_groups", "show_group"),
    ),
    _rule(
        "compute:server_groups:change",
        _MEMBER,
        "Create and delete server groups of the own project.",
        "POST /os-server-groups",
        "DELETE /os-server-groups/{group_id}",
        *_calls("create_group", "update_group", "delete_group"),
    ),
    _rule(
        "compute:limits:get",
        _READER,
        "Show what the own project may have, and what it uses.",
        "GET /limits",
        "GET /os-quota-sets/{project_id}",
        "GET /os-quota-sets/{project_id}/detail",
        "GET /os-quota-sets/{project_id}/defaults",
        "GET /os-simple-tenant-usage/{project_id}",
        "GET /os-quota-class-sets/{quota_class}",
        "GET /v3/os-quota-class-sets/{quota_class}",
        *(
            f"GET /v3{path}"
            for path in ("/limits", "/os-quota-sets/{project_id}", "/os-quota-sets/{project_id}/defaults")
        ),
        *_calls("show_quota"),
    ),
    _rule(
        "compute:projects:get", _READER, "Look up a project by its name.", "GET /projects", "GET /projects/{project_id}"
    ),
    _rule(ALL_QUOTAS, _ADMIN, "Show what other projects may have and use.", "GET /limits?tenant_id=..."),
    _rule(
        "compute:quotas:update",
        _ADMIN,
        "Change what projects may have.",
        "PUT /os-quota-sets/{project_id}",
        "DELETE /os-quota-sets/{project_id}",
        "PUT /v3/os-quota-sets/{project_id}",
        "DELETE /v3/os-quota-sets/{project_id}",
    ),
    _rule(
        "volume:get",
        _READER,
        "List and show volumes and snapshots of the own project, and volume types.",
        *(f"GET /v3/volumes{path}" for path in ("", "/detail", "/summary", "/{volume_id}")),
        *(f"GET /v3/volumes/{{volume_id}}/metadata{path}" for path in ("", "/{key}")),
        *(f"GET /v3/snapshots{path}" for path in ("", "/detail", "/{snapshot_id}")),
        *(f"GET /v3/snapshots/{{snapshot_id}}/metadata{path}" for path in ("", "/{key}")),
        *(f"GET /v3/types{path}" for path in ("", "/default", "/{type_id}")),
        *_calls(
            "list_volumes", "search_volumes", "show_volume", "list_snapshots", "show_snapshot", "list_volume_types"
        ),
    ),
    _rule(
        ALL_VOLUMES,
        _ADMIN,
        "List and show volumes of all projects, with their pools.",
        "GET /v3/volumes/detail?all_tenants=1",
    ),
    _rule(
        "volume:change",
        _MEMBER,
        "Create, change, extend, retype and delete volumes and snapshots of the own project.",
        "POST /v3/volumes",
        "PUT /v3/volumes/{volume_id}",
        "DELETE /v3/volumes/{volume_id}",
        "POST /v3/volumes/{volume_id}/metadata",
        "PUT /v3/volumes/{volume_id}/metadata",
        *(f"{method} /v3/volumes/{{volume_id}}/metadata/{{key}}" for method in ("PUT", "DELETE")),
        "POST /v3/volumes/{volume_id}/action",
        "POST /v3/snapshots",
        *(f"{method} /v3/snapshots/{{snapshot_id}}" for method in ("PUT", "DELETE")),
        *(f"{method} /v3/snapshots/{{snapshot_id}}/metadata" for method in ("POST", "PUT")),
        *(f"{method} /v3/snapshots/{{snapshot_id}}/metadata/{{key}}" for method in ("PUT", "DELETE")),
        *_calls("create_volumes", "update_volume", "extend_volume", "retype_volume", "delete_volume"),
        *_calls("create_snapshot", "update_snapshot", "delete_snapshot"),
    ),
    _rule(
        "compute:attachments:get",
        _READER,
        "List the volumes that servers of the own project have.",
        "GET /servers/{server_id}/os-volume_attachments",
        "GET /servers/{server_id}/os-volume_attachments/{volume_id}",
        *_calls("list_attachments"),
    ),
    _rule(
        ATTACH,
        _MEMBER,
        "Attach volumes of the own project to its servers, also to new ones, and detach them.",
        "POST /servers (with volumes)",
        "POST /servers/{server_id}/os-volume_attachments",
        "DELETE /servers/{server_id}/os-volume_attachments/{volume_id}",
        *_calls("attach_volume", "detach_volume"),
    ),
    _rule(
        MIGRATE_VOLUME,
        _ADMIN,
        "Move a volume to another pool.",
        "POST /v3/volumes/{volume_id}/action (os-migrate_volume)",
    ),
    _rule(
        FORCE_DELETE_VOLUME,
        _ADMIN,
        "Delete a volume, whatever else asks to have it kept.",
        "POST /v3/volumes/{volume_id}/action (os-force_delete)",
    ),
    _rule(
        MANAGE_VOLUME,
        _ADMIN,
        "Make volumes of data that lie on a pool, and leave volumes to themselves.",
        *(f"{method} /v3{path}" for path in ("/os-volume-manage", "/manageable_volumes") for method in ("POST", "GET")),
        *(f"GET /v3{path}/detail" for path in ("/os-volume-manage", "/manageable_volumes")),
        "POST /v3/volumes/{volume_id}/action (os-unmanage)",
    ),
    _rule(
        "fleet:events",
        _READER,
        "Follow what happens to instances and volumes of the own project.",
        "GET /fleet/v1/events",
        *_calls("list_events"),
    ),
    _rule(
        OTHERS,
        _ADMIN,
        "All else: hosts, services, aggregates, changes of flavors, and all under /fleet/v1.",
        "GET /fleet/v1/...",
    ),
]


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
        calls = {key: rule for key, rule in documented().items() if key[1].startswith(f"{CALLS}/")}
        self._by_route = {**guarded, **calls}

    def rule_of(self, method: str, route: str, path: str) -> str:
        """:param route: with the names of parameters in place of their values; calls have no such rules"""
        asked = path if route.startswith(f"{CALLS}/") else route
        return self._by_route.get(("GET" if method == "HEAD" else method, asked), OTHERS)

    def calls(self, roles: Iterable[str], project: str | None) -> dict[str, bool]:
        """Return which calls of the contract these roles may make, by ``topic/method``; ``*``: those that no rule names."""
        given = list(roles)
        allowed = {rule.name: self.allows(rule.name, given, project) for rule in RULES}
        beginning = f"{CALLS}/"
        found = {
            path.removeprefix(beginning): allowed[rule]
            for (_method, path), rule in self._by_route.items()
            if path.startswith(beginning)
        }
        return {**found, "*": allowed[OTHERS]}

    def allows(self, rule: str, roles: Iterable[str], project: str | None) -> bool:
        """:param rule: the name of one of RULES"""
        return bool(self._enforcer.authorize(rule, {}, {"roles": list(roles), "project_id": project}))


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """For oslopolicy-sample-generator."""
    return RULES
