# SPDX-License-Identifier: Apache-2.0
"""The rules of volumes, snapshots and attachments. Called by :mod:`fleet_api.access.policies`."""

from __future__ import annotations

from fleet_api.access import rules
from fleet_api.access.rules import calls, rule

RULES = [
    rule(
        "volume:get",
        rules.READER,
        "List and show volumes and snapshots of the own project, and volume types.",
        *(f"GET /v3/volumes{path}" for path in ("", "/detail", "/summary", "/{volume_id}")),
        *(f"GET /v3/volumes/{{volume_id}}/metadata{path}" for path in ("", "/{key}")),
        *(f"GET /v3/snapshots{path}" for path in ("", "/detail", "/{snapshot_id}")),
        *(f"GET /v3/snapshots/{{snapshot_id}}/metadata{path}" for path in ("", "/{key}")),
        *(f"GET /v3/types{path}" for path in ("", "/default", "/{type_id}")),
        *calls("list_volumes", "search_volumes", "show_volume", "list_snapshots", "show_snapshot", "list_volume_types"),
    ),
    rule(
        rules.ALL_VOLUMES,
        rules.ADMIN,
        "List and show volumes of all projects, with their pools.",
        "GET /v3/volumes/detail?all_tenants=1",
    ),
    rule(
        "volume:change",
        rules.MEMBER,
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
        *calls("create_volumes", "update_volume", "extend_volume", "retype_volume", "delete_volume"),
        *calls("create_snapshot", "update_snapshot", "delete_snapshot"),
    ),
    rule(
        "compute:attachments:get",
        rules.READER,
        "List the volumes that servers of the own project have.",
        "GET /servers/{server_id}/os-volume_attachments",
        "GET /servers/{server_id}/os-volume_attachments/{volume_id}",
        *calls("list_attachments"),
    ),
    rule(
        rules.ATTACH,
        rules.MEMBER,
        "Attach volumes of the own project to its servers, also to new ones, and detach them. It holds for builds of the "
        "command, too.",
        "POST /servers (with volumes)",
        "POST /servers/{server_id}/os-volume_attachments",
        "DELETE /servers/{server_id}/os-volume_attachments/{volume_id}",
        *calls("attach_volume", "detach_volume"),
    ),
    rule(
        rules.MIGRATE_VOLUME,
        rules.ADMIN,
        "Move a volume to another pool.",
        "POST /v3/volumes/{volume_id}/action (os-migrate_volume)",
    ),
    rule(
        rules.FORCE_DELETE_VOLUME,
        rules.ADMIN,
        "Delete a volume, whatever else asks to have it kept.",
        "POST /v3/volumes/{volume_id}/action (os-force_delete)",
    ),
    rule(
        rules.MANAGE_VOLUME,
        rules.ADMIN,
        "Make volumes of data that lie on a pool, and leave volumes to themselves.",
        *(f"{method} /v3{path}" for path in ("/os-volume-manage", "/manageable_volumes") for method in ("POST", "GET")),
        *(f"GET /v3{path}/detail" for path in ("/os-volume-manage", "/manageable_volumes")),
        "POST /v3/volumes/{volume_id}/action (os-unmanage)",
    ),
]
