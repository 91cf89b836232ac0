# SPDX-License-Identifier: Apache-2.0
"""The rules of the compute API, with networks and images. Called by :mod:`fleet_api.access.policies`."""

from __future__ import annotations

from fleet_api.access import rules
from fleet_api.access.rules import calls, rule

_IMAGES = [f"GET {root}/images{one}" for root in ("/v2", rules.ROOT, f"{rules.ROOT}/v2") for one in ("", "/{image_id}")]
_NETWORKS = [
    f"GET {root}/{each}"
    for root in ("/v2.0", rules.ROOT)
    for kind in ("network", "subnet", "port")
    for each in (f"{kind}s", f"{kind}s/{{{kind}_id}}")
]
RULES = [
    rule(
        "compute:servers:get",
        rules.READER,
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
        *calls(
            *("list_instances", "search_instances", "show_instance", "newest_faults", "list_migrations", "list_queue"),
            "list_decisions",
        ),
    ),
    rule(
        rules.ALL_PROJECTS,
        rules.ADMIN,
        "List and show servers of all projects, with their hosts.",
        "GET /servers?all_tenants=1",
    ),
    rule(
        "compute:servers:create",
        rules.MEMBER,
        "Create servers in the own project.",
        "POST /servers",
        *calls("create", topic="compute_task"),
    ),
    rule(
        rules.FREE_CHOICE,
        rules.ADMIN,
        "Create and resize servers with sizes, extra specs and image properties of one's own, with hosts to leave out, and "
        "with the hints query, build_near_host_ip and cidr. Other users name a flavor and an image.",
        "POST /servers (with more than a flavor and an image)",
    ),
    rule(
        rules.FORCED_HOST,
        rules.ADMIN,
        "Name the host of a server. The filters decide on the fields host and hypervisor_hostname, and no filter decides on "
        "ZONE:HOST:NODE.",
        "POST /servers (with a host)",
    ),
    rule(
        "compute:servers:update",
        rules.MEMBER,
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
        *calls("update_instance"),
    ),
    rule(
        rules.DELETE,
        rules.MEMBER,
        "Delete servers of the own project.",
        "DELETE /servers/{server_id}",
        *calls("terminate_instances", topic="compute_task"),
    ),
    rule(
        "compute:servers:action",
        rules.MEMBER,
        "Switch, resize, rebuild, shelve and lock it (stop, start, reboot, suspend, resume, confirm, revert, rebuild, "
        "shelve, unshelve, lock, unlock), and read consoles.",
        "POST /servers/{server_id}/action",
        *calls("stop_instance", "start_instance", "reboot_instance", "get_console_output"),
        *calls("suspend_instance", "resume_instance", "lock_instance", "unlock_instance"),
        *calls("rebuild_instance", "shelve_instance", "unshelve_instance"),
        *calls("resize_instance", "confirm_resize", "revert_resize"),
    ),
    rule(
        rules.MIGRATE,
        rules.ADMIN,
        "Move a server to another host.",
        "POST /servers/{server_id}/action (migrate)",
    ),
    rule(
        rules.MIGRATE_LIVE,
        rules.ADMIN,
        "Move a server to another host while it runs.",
        "POST /servers/{server_id}/action (os-migrateLive)",
    ),
    rule(
        rules.EVACUATE,
        rules.ADMIN,
        "Build a server of a dead host elsewhere.",
        "POST /servers/{server_id}/action (evacuate)",
    ),
    rule(
        rules.SHELVE_OFFLOAD,
        rules.ADMIN,
        "Let a shelved server give its host back before its time.",
        "POST /servers/{server_id}/action (shelveOffload)",
    ),
    rule(
        rules.UNSHELVE_HOST,
        rules.ADMIN,
        "Name the only host to consider for a server that is unshelved; it must pass the filters.",
        "POST /servers/{server_id}/action (unshelve, with a host)",
    ),
    rule(
        rules.RESET_STATE,
        rules.ADMIN,
        "Set the state of a server to active or error.",
        "POST /servers/{server_id}/action (os-resetState)",
    ),
    rule(
        "compute:flavors:get",
        rules.READER,
        "List and show flavors.",
        "GET /flavors",
        "GET /flavors/detail",
        "GET /flavors/{flavor_id}",
        "GET /flavors/{flavor_id}/os-extra_specs",
        "GET /flavors/{flavor_id}/os-extra_specs/{key}",
        *calls("list_flavors", "show_flavor"),
    ),
    rule("compute:images:get", rules.READER, "List and show images.", *_IMAGES, *calls("list_images", "show_image")),
    rule(
        "compute:keypairs:get",
        rules.READER,
        "List and show the own key pairs.",
        "GET /os-keypairs",
        "GET /os-keypairs/{name}",
        *calls("list_key_pairs", "show_key_pair"),
    ),
    rule(
        "compute:keypairs:change",
        rules.MEMBER,
        "Create and delete own key pairs.",
        "POST /os-keypairs",
        "DELETE /os-keypairs/{name}",
        *calls("create_key_pair", "delete_key_pair"),
    ),
    rule(
        "network:get",
        rules.READER,
        "List and show the networks that the own project may use, and the addresses of its servers.",
        *_NETWORKS,
        *calls("list_networks", "show_network"),
    ),
    rule(
        rules.ZONES,
        rules.READER,
        "List availability zones, without their hosts.",
        "GET /os-availability-zone",
        "GET /v3/os-availability-zone",
    ),
    rule(
        "compute:server_groups:get",
        rules.READER,
        "List and show server groups of the own project.",
        "GET /os-server-groups",
        "GET /os-server-groups/{group_id}",
        *calls("list_groups", "show_group"),
    ),
    rule(
        "compute:server_groups:change",
        rules.MEMBER,
        "Create and delete server groups of the own project.",
        "POST /os-server-groups",
        "DELETE /os-server-groups/{group_id}",
        *calls("create_group", "update_group", "delete_group"),
    ),
    rule(
        "compute:limits:get",
        rules.READER,
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
        *calls("show_quota"),
    ),
    rule(
        "compute:projects:get",
        rules.READER,
        "Look up a project by its name.",
        "GET /projects",
        "GET /projects/{project_id}",
    ),
    rule(rules.ALL_QUOTAS, rules.ADMIN, "Show what other projects may have and use.", "GET /limits?tenant_id=..."),
    rule(
        "compute:quotas:update",
        rules.ADMIN,
        "Change what projects may have.",
        "PUT /os-quota-sets/{project_id}",
        "DELETE /os-quota-sets/{project_id}",
        "PUT /v3/os-quota-sets/{project_id}",
        "DELETE /v3/os-quota-sets/{project_id}",
    ),
]
