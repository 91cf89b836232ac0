# SPDX-License-Identifier: Apache-2.0
"""Whose each request of the HTTP API is, with a body that its owner may send. A new route needs a line here.

``PUBLIC``: everybody's. ``SHARED``: what all projects share. ``LIST``: lists and new objects, of the caller's project.
``OWN``: of the project whose object the path names. ``ADMIN``: of the administrator.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

PUBLIC, SHARED, LIST, OWN, ADMIN = "public", "shared", "list", "own", "admin"
_TABLE: Mapping[str, tuple[str, ...]] = {
    PUBLIC: (
        "GET /",
        "GET /v2.1",
        "GET /v2",
        "GET /v3",
        "GET /v2.0",
        "GET /fleet/v1/openapi.json",
        "POST,DELETE /fleet/v1/session",
    ),
    SHARED: (
        "GET /fleet/v1/session",
        *(f"GET /v2.1/flavors{path}" for path in ("", "/detail", "/{flavor_id}", "/{flavor_id}/os-extra_specs")),
        "GET /v2.1/flavors/{flavor_id}/os-extra_specs/{key}",
        *(f"GET {root}/os-quota-class-sets/{{quota_class}}" for root in ("/v2.1", "/v3")),
        "GET /v2.1/projects",
        "GET /v2.1/projects/{project_id}",
        *(f"GET {root}/os-availability-zone" for root in ("/v2.1", "/v3")),
        *(f"GET {root}/images{one}" for root in ("/v2", "/v2.1", "/v2.1/v2") for one in ("", "/{image_id}")),
        *("GET /v3/types", "GET /v3/types/default", "GET /v3/types/{type_id}"),
    ),
    LIST: (
        *("GET,POST /v2.1/servers", "GET /v2.1/servers/detail", "GET /fleet/v1/events"),
        *("GET,POST /v2.1/os-server-groups", "GET,POST /v2.1/os-keypairs"),
        *("GET /v2.1/limits", "GET /v3/limits"),
        *(f"GET {root}/{kind}s" for root in ("/v2.0", "/v2.1") for kind in ("network", "subnet", "port")),
        *("GET,POST /v3/volumes", "GET /v3/volumes/detail", "GET,POST /v3/snapshots", "GET /v3/snapshots/detail"),
        "GET /v3/volumes/summary",
    ),
    OWN: (
        "GET,PUT,DELETE /v2.1/servers/{server_id}",
        "GET,POST,PUT /v2.1/servers/{server_id}/metadata",
        "GET,PUT,DELETE /v2.1/servers/{server_id}/metadata/{key}",
        "GET,PUT,DELETE /v2.1/servers/{server_id}/tags",
        "GET,PUT,DELETE /v2.1/servers/{server_id}/tags/{tag}",
        "GET,POST /v2.1/servers/{server_id}/os-volume_attachments",
        "GET,DELETE /v2.1/servers/{server_id}/os-volume_attachments/{volume_id}",
        *(f"GET /v2.1/servers/{{server_id}}/os-{of}" for of in ("interface", "security-groups", "instance-actions")),
        *("GET /v2.1/servers/{server_id}/ips", "GET /v2.1/servers/{server_id}/ips/{network}"),
        "GET /v2.1/servers/{server_id}/os-instance-actions/{request_id}",
        "POST /v2.1/servers/{server_id}/action",
        "GET,DELETE /v2.1/os-server-groups/{group_id}",
        *(f"GET {root}/{each}s/{{{each}_id}}" for root in ("/v2.0", "/v2.1") for each in ("network", "subnet", "port")),
        "GET,DELETE /v2.1/os-keypairs/{name}",
        "GET /v2.1/os-simple-tenant-usage/{project_id}",
        *(f"GET /v2.1/os-quota-sets/{{project_id}}{path}" for path in ("", "/detail", "/defaults")),
        *(f"GET /v3/os-quota-sets/{{project_id}}{path}" for path in ("", "/defaults")),
        "GET,PUT,DELETE /v3/volumes/{volume_id}",
        "GET,POST,PUT /v3/volumes/{volume_id}/metadata",
        "GET,PUT,DELETE /v3/volumes/{volume_id}/metadata/{key}",
        "POST /v3/volumes/{volume_id}/action",
        "GET,PUT,DELETE /v3/snapshots/{snapshot_id}",
        "GET,POST,PUT /v3/snapshots/{snapshot_id}/metadata",
        "GET,PUT,DELETE /v3/snapshots/{snapshot_id}/metadata/{key}",
    ),
    ADMIN: (
        "GET /v2.1/servers/{server_id}/migrations",
        "GET,DELETE /v2.1/servers/{server_id}/migrations/{migration_id}",
        "POST /v2.1/servers/{server_id}/migrations/{migration_id}/action",
        *("GET /v2.1/os-migrations", "POST /v2.1/flavors", "PUT,DELETE /v2.1/flavors/{flavor_id}"),
        *("GET /v2.1/flavors/{flavor_id}/os-flavor-access", "POST /v2.1/flavors/{flavor_id}/action"),
        "POST /v2.1/flavors/{flavor_id}/os-extra_specs",
        "PUT,DELETE /v2.1/flavors/{flavor_id}/os-extra_specs/{key}",
        *(f"GET /v2.1/os-hypervisors{path}" for path in ("", "/detail", "/statistics", "/{hypervisor_id}")),
        *(f"GET /v2.1/os-hypervisors/{{hypervisor_id}}/{of}" for of in ("search", "servers", "uptime")),
        *(f"PUT {root}/os-quota-class-sets/{{quota_class}}" for root in ("/v2.1", "/v3")),
        *("GET /v2.1/os-services", "PUT,DELETE /v2.1/os-services/{service_id}"),
        "GET /v2.1/os-simple-tenant-usage",
        *("GET /v2.1/os-availability-zone/detail", "GET,POST /v2.1/os-aggregates"),
        *("GET,PUT,DELETE /v2.1/os-aggregates/{aggregate_id}", "POST /v2.1/os-aggregates/{aggregate_id}/action"),
        *(f"PUT,DELETE {root}/os-quota-sets/{{project_id}}" for root in ("/v2.1", "/v3")),
        *(f"GET,POST /v3/{path}" for path in ("os-volume-manage", "manageable_volumes")),
        *(f"GET /v3/{path}/detail" for path in ("os-volume-manage", "manageable_volumes")),
        *("GET /v3/types/{type_id}/os-volume-type-access", "POST /v3/types/{type_id}/action"),
        *("POST /v3/types", "PUT,DELETE /v3/types/{type_id}", "GET,POST /v3/types/{type_id}/extra_specs"),
        *(
            "GET,PUT,DELETE /v3/types/{type_id}/extra_specs/{key}",
            "GET /v3/scheduler-stats/get_pools",
            "GET /v3/os-services",
            "PUT /v3/os-services/{action}",
        ),
        *(
            f"GET /fleet/v1/{path}"
            for path in ("hosts", "hosts/{name}", "builds", "trace/{name}", "flavors", "use", "acts", "doctor")
        ),
        *("POST /fleet/v1/explain", "POST /fleet/v1/capacity"),
    ),
}
#: By ``METHOD /path``: whose it is.
WHOSE: Mapping[str, str] = {
    f"{method} {path}": whose
    for whose, lines in _TABLE.items()
    for line in lines
    for methods, path in (line.split(" "),)
    for method in methods.split(",")
}
#: Its calls are a suite of their own: ``calls``.
CALLS = "POST /fleet/v1/calls/{topic}/{method}"

#: What the parameters of paths name, and of single paths; ``{server}`` is the uuid of their server, and so on.
PARAMETERS: Mapping[str, str] = {
    "server_id": "{server}",
    "volume_id": "{volume}",
    "snapshot_id": "{snapshot}",
    "group_id": "{group}",
    "network_id": "{network}",
    "subnet_id": "{network}",
    "port_id": "{port}",
    "migration_id": "{migration}",
    "request_id": "{request}",
    "project_id": "{project}",
    "key": "note",
    "tag": "{token}-tag",
    "flavor_id": "small",
    "quota_class": "default",
    "action": "disable",
    "network": "{token}-network",
    "image_id": "{image}",
    "type_id": "{volume_type}",
    "aggregate_id": "{aggregate}",
    "hypervisor_id": "{hypervisor}",
    "service_id": "{service}",
    "/v2.1/os-keypairs/{name}": "{key_pair}",
    "/fleet/v1/hosts/{name}": "{host}",
    "/fleet/v1/trace/{name}": "{server}",
    "/v2.1/servers/{server_id}/os-volume_attachments/{volume_id}": "{attached}",
    "/v2.1/flavors/{flavor_id}/os-extra_specs/{key}": "hw:cpu_policy",
    "/v3/types/{type_id}/extra_specs/{key}": "tier",
}
#: Actions for which a member is refused, on an own server or volume.
ADMINISTRATIVE = frozenset(
    {
        "migrate",
        "os-migrateLive",
        "evacuate",
        "os-resetState",
        "shelveOffload",
        "os-migrate_volume",
        "os-unmanage",
        "os-force_delete",
    }
)
_SERVER = {"name": "n", "flavorRef": "small", "imageRef": "", "networks": "none"}
_ON_VOLUME = {"boot_index": -1, "uuid": "{volume}", "source_type": "volume", "destination_type": "volume"}
_LOCAL = {"boot_index": 0, "source_type": "image", "destination_type": "local", "uuid": "{image}"}
_WANTED = {"request": {"flavor": "small"}}
_MANAGED = {"volume": {"host": "{backend}#pool", "ref": {"source-name": "lost"}, "name": "n"}}
#: Bodies that the owner of the objects, or the administrator, may send; a path without one is asked without a body.
BODIES: Mapping[str, tuple[Any, ...]] = {
    "POST /fleet/v1/session": ({"user": "bertha", "password": "wrong"},),
    "POST /v2.1/servers": (
        {"server": _SERVER},
        {"server": {**_SERVER, "key_name": "{key_pair}"}},
        {"server": {**_SERVER, "networks": [{"uuid": "{network}"}]}},
        {"server": _SERVER, "os:scheduler_hints": {"group": "{group}"}},
        {"server": _SERVER, "os:scheduler_hints": {"same_host": "{server}"}},
        {"server": _SERVER, "os:scheduler_hints": {"different_host": ["{server}"]}},
        {"server": {**_SERVER, "imageRef": "{image}", "block_device_mapping_v2": [_LOCAL, _ON_VOLUME]}},
    ),
    "PUT /v2.1/servers/{server_id}": ({"server": {"name": "mine"}},),
    "POST /v2.1/servers/{server_id}/metadata": ({"metadata": {"a": "b"}},),
    "PUT /v2.1/servers/{server_id}/metadata": ({"metadata": {"a": "b"}},),
    "PUT /v2.1/servers/{server_id}/metadata/{key}": ({"meta": {"note": "b"}},),
    "PUT /v2.1/servers/{server_id}/tags": ({"tags": ["a"]},),
    "POST /v2.1/servers/{server_id}/os-volume_attachments": ({"volumeAttachment": {"volumeId": "{volume}"}},),
    "POST /v2.1/servers/{server_id}/action": (
        *({name: None} for name in ("os-stop", "os-start", "suspend", "resume", "confirmResize", "revertResize")),
        *({name: {}} for name in ("migrate", "evacuate", "os-getConsoleOutput")),
        {"resize": {"flavorRef": "big"}},
        {"reboot": {"type": "HARD"}},
        *({name: None} for name in ("lock", "unlock", "shelve", "unshelve", "shelveOffload", "restore", "forceDelete")),
        {"os-resetState": {"state": "error"}},
        {"rebuild": {"imageRef": "{image}"}},
        {"os-migrateLive": {"host": None, "block_migration": "auto"}},
    ),
    "POST /v2.1/servers/{server_id}/migrations/{migration_id}/action": ({"force_complete": None},),
    "POST /v2.1/flavors": ({"flavor": {"name": "new", "ram": 64, "vcpus": 1, "disk": 1}},),
    "POST /v2.1/flavors/{flavor_id}/os-extra_specs": ({"extra_specs": {"a": "b"}},),
    "PUT /v2.1/flavors/{flavor_id}/os-extra_specs/{key}": ({"hw:cpu_policy": "shared"},),
    "PUT /v2.1/flavors/{flavor_id}": ({"flavor": {"description": "mine"}},),
    "POST /v2.1/flavors/{flavor_id}/action": (
        {"addTenantAccess": {"tenant": "another"}},
        {"removeTenantAccess": {"tenant": "{project}"}},
    ),
    "PUT /v2.1/os-services/{service_id}": ({"status": "disabled"},),
    "POST /v2.1/os-aggregates": ({"aggregate": {"name": "another"}},),
    "PUT /v2.1/os-aggregates/{aggregate_id}": ({"aggregate": {"name": "another"}},),
    "POST /v2.1/os-aggregates/{aggregate_id}/action": (
        {"add_host": {"host": "quarry-three"}},
        {"remove_host": {"host": "quarry-one"}},
        {"set_metadata": {"metadata": {"a": "b"}}},
    ),
    "POST /v2.1/os-server-groups": ({"server_group": {"name": "another", "policies": ["affinity"]}},),
    "POST /v2.1/os-keypairs": ({"keypair": {"name": "another", "public_key": "{public_key}"}},),
    **{
        f"PUT {root}/os-quota-sets/{{project_id}}": ({"quota_set": {name: 7}},)
        for root, name in (("/v2.1", "instances"), ("/v3", "volumes"))
    },
    "POST /v3/volumes": (
        {"volume": {"size": 1}},
        {"volume": {"size": 1, "source_volid": "{volume}"}},
        {"volume": {"size": 1, "snapshot_id": "{snapshot}"}},
    ),
    "PUT /v3/os-services/{action}": ({"host": "{backend}", "binary": "cinder-volume"},),
    "PUT /v3/volumes/{volume_id}": ({"volume": {"name": "mine"}},),
    "POST /v3/volumes/{volume_id}/metadata": ({"metadata": {"a": "b"}},),
    "PUT /v3/volumes/{volume_id}/metadata": ({"metadata": {"a": "b"}},),
    "PUT /v3/volumes/{volume_id}/metadata/{key}": ({"meta": {"note": "b"}},),
    "PUT /v3/snapshots/{snapshot_id}": ({"snapshot": {"name": "mine", "description": "mine"}},),
    "POST /v3/snapshots/{snapshot_id}/metadata": ({"metadata": {"a": "b"}},),
    "PUT /v3/snapshots/{snapshot_id}/metadata": ({"metadata": {"a": "b"}},),
    "PUT /v3/snapshots/{snapshot_id}/metadata/{key}": ({"meta": {"note": "b"}},),
    "POST /v3/volumes/{volume_id}/action": (
        {"os-extend": {"new_size": 2}},
        {"os-retype": {"new_type": "fast", "migration_policy": "on-demand"}},
        {"os-migrate_volume": {}},
        {"os-unmanage": None},
        {"os-force_delete": None},
        {"os-set_bootable": {"bootable": True}},
    ),
    "POST /v3/os-volume-manage": (_MANAGED,),
    "POST /v3/manageable_volumes": (_MANAGED,),
    "POST /v3/snapshots": ({"snapshot": {"volume_id": "{volume}", "name": "n"}},),
    "POST /v3/types": ({"volume_type": {"name": "another"}},),
    "PUT /v3/types/{type_id}": ({"volume_type": {"description": "mine"}},),
    "POST /v3/types/{type_id}/action": (
        {"addProjectAccess": {"project": "another"}},
        {"removeProjectAccess": {"project": "{project}"}},
    ),
    "POST /v3/types/{type_id}/extra_specs": ({"extra_specs": {"a": "b"}},),
    "PUT /v3/types/{type_id}/extra_specs/{key}": ({"tier": "2"},),
    "POST /fleet/v1/explain": (_WANTED,),
    "POST /fleet/v1/capacity": (_WANTED,),
}
#: They look for what is not there, such as a live migration.
NOT_THERE = frozenset(
    [
        *(f"{method} /v2.1/servers/{{server_id}}/migrations/{{migration_id}}" for method in ("GET", "DELETE")),
        "POST /v2.1/servers/{server_id}/migrations/{migration_id}/action",
        # They are in older versions only.
        *(f"GET /v2.1/os-hypervisors/{path}" for path in ("statistics", "{hypervisor_id}/uptime")),
        *(f"GET /v2.1/os-hypervisors/{{hypervisor_id}}/{of}" for of in ("search", "servers")),
        # There is none; and the flavor is public.
        *("GET /v3/types/default", "GET /v2.1/flavors/{flavor_id}/os-flavor-access"),
        "GET /v3/types/{type_id}/os-volume-type-access",
    ]
)
#: Without them the administrator's list is refused, and the stream of events begins now.
QUERIES: Mapping[str, Mapping[str, str]] = {
    f"GET /v3/{path}{detail}": {"host": "{backend}#pool"}
    for path, detail in itertools.product(("os-volume-manage", "manageable_volumes"), ("", "/detail"))
}
HEADERS: Mapping[str, Mapping[str, str]] = {
    "GET /fleet/v1/events": {"Last-Event-ID": "0.0"},
    "GET /v3/volumes/summary": {"OpenStack-API-Version": "volume 3.71"},
    # Later versions of the compute API have no such paths.
    **{f"GET /v2.1/images{one}": {"OpenStack-API-Version": "compute 2.35"} for one in ("", "/{image_id}")},
}


def filled(form: Any, ids: Mapping[str, str]) -> Any:
    """``form`` with ``{server}`` and the like replaced, however deep."""
    if isinstance(form, str):
        return form.format_map(ids)
    if isinstance(form, Mapping):
        return {filled(name, ids): filled(value, ids) for name, value in form.items()}
    return [filled(each, ids) for each in form] if isinstance(form, list) else form


def path_of(path: str, ids: Mapping[str, str]) -> str:
    """:raises KeyError: a parameter that PARAMETERS lacks"""
    *parts, last = path.split("/")
    wanted = [*(_value(part) for part in parts), PARAMETERS.get(path) or _value(last)]
    return "/".join(filled(wanted, ids))


def _value(part: str) -> str:
    return PARAMETERS[part[1:-1]] if part.startswith("{") else part


def bodies_of(request: str) -> Iterator[Any]:
    yield from BODIES.get(request, (None,))
