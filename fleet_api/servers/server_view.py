# SPDX-License-Identifier: Apache-2.0
"""An instance in the form of nova's servers. The resources of servers answer with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import falcon

from fleet import states
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import host_name
from fleet_api.access import identity
from fleet_api.access.identity import ADMIN
from fleet_api.requests import microversions
from fleet_api.servers import addresses
from fleet_api.servers.server_forms import (
    BriefServer,
    ChangedServer,
    FlavorInside,
    FlavorLink,
    ImageLink,
    ListedServer,
    Newer,
    Server,
    ServerFault,
    ServerVolume,
)

#: How the disk of a guest is partitioned, unless its client has written something else: by its image.
DISK_CONFIG = "MANUAL"
#: Versions from which an answer has a form.
_LOCKED, _TAGS, _FLAVOR_INSIDE, _GROUPS, _PINNED_ZONE, _HINTS = (2, 9), (2, 26), (2, 47), (2, 71), (2, 96), (2, 100)
_DESCRIPTION, _HOST_STATUS, _CERTIFICATES, _LOCKED_REASON = (2, 19), (2, 16), (2, 63), (2, 73)
#: The version from which members see the host name of a guest.
_HOSTNAME = (2, 90)
#: The version from which a server's volumes say that they outlast it.
_OUTLAST = (2, 3)
#: Statuses by task, then by state.
_OF_TASK = {
    states.RESIZE_REVERTING: "REVERT_RESIZE",
    states.REBUILDING: "REBUILD",
    states.REBUILD_SPAWNING: "REBUILD",
    states.REBUILD_DISK: "REBUILD",
    states.REBOOTING: "REBOOT",
    states.REBOOTING_HARD: "HARD_REBOOT",
    **dict.fromkeys((states.MIGRATING_PREP, states.MIGRATING), "MIGRATING"),
    **dict.fromkeys((states.RESIZE_PREP, states.RESIZE_MIGRATING, states.RESIZE_FINISH), "RESIZE"),
}
_OF_STATE = {
    states.BUILDING: "BUILD",
    states.ACTIVE: "ACTIVE",
    states.STOPPED: "SHUTOFF",
    states.VM_SUSPENDED: "SUSPENDED",
    states.SHELVED: "SHELVED",
    states.SHELVED_OFFLOADED: "SHELVED_OFFLOADED",
    states.RESIZED: "VERIFY_RESIZE",
    states.ERROR: "ERROR",
    states.DELETED: "DELETED",
}


def status(instance: JSONMapping) -> str:
    if instance.get("is_unshelved"):
        return _OF_STATE[states.SHELVED_OFFLOADED]
    found = _OF_TASK.get(instance["task_state"]) or _OF_STATE.get(instance["vm_state"])
    return found or str(instance["vm_state"]).upper()


def is_locked(instance: Mapping[str, object]) -> bool:
    """Older conductors know no locks."""
    return instance.get("locked_by") is not None


#: From this version on the answer to a change is the whole server; before, it has the fields below.
_WHOLE_AFTER_CHANGE = (2, 75)
_AFTER_CHANGE = frozenset(
    ("id", "name", "status", "image", "flavor", "fault", "user_id", "tenant_id", "created", "updated", "progress")
    + ("metadata", "links", "addresses", "hostId", "OS-DCF:diskConfig", "accessIPv4", "accessIPv6")
    + ("locked", "description", "tags", "trusted_image_certificates", "server_groups", "locked_reason")
)
#: Fields that only users who may see all projects get.
_OF_HOSTS = (
    "OS-EXT-SRV-ATTR:host",
    "OS-EXT-SRV-ATTR:hypervisor_hostname",
    "OS-EXT-SRV-ATTR:instance_name",
    "host_status",
)


def brief(request: falcon.Request, instance: JSONMapping) -> BriefServer:
    path = f"/servers/{instance['uuid']}"
    return {"id": instance["uuid"], "name": instance["name"], "links": microversions.links(request, path)}


def view(request: falcon.Request, instance: JSONMapping) -> ListedServer:
    """Return a server as in a list with details."""
    version, host = request.context.version, instance["host"]
    is_placed = bool(host or instance.get("host_id"))
    project = instance["project_id"] or ADMIN
    shown: ListedServer = {
        **brief(request, instance),
        "status": status(instance),
        "tenant_id": project,
        "user_id": instance["user_id"] or ADMIN,
        "created": _seconds(instance["created_at"]),
        "updated": _seconds(instance["updated_at"] or instance["created_at"]),
        # A conductor that is older does not send it to administrators.
        "hostId": instance.get("host_id") or "",
        "image": _image(request, instance["image"]),
        "flavor": _flavor(request, instance["flavor"]),
        "addresses": addresses.view(instance),
        "metadata": instance["metadata"],
        "key_name": instance.get("key_name"),
        "config_drive": "",
        "accessIPv4": instance.get("access_ip_v4") or "",
        "accessIPv6": instance.get("access_ip_v6") or "",
        "OS-DCF:diskConfig": instance.get("disk_config") or DISK_CONFIG,
        "OS-EXT-AZ:availability_zone": (instance["availability_zone"] or "") if is_placed else "",
        "OS-EXT-STS:task_state": _task(instance),
        "OS-EXT-STS:vm_state": states.SHELVED_OFFLOADED if instance.get("is_unshelved") else instance["vm_state"],
        "OS-EXT-STS:power_state": instance["power_state"],
        "OS-EXT-SRV-ATTR:host": host,
        "OS-EXT-SRV-ATTR:hypervisor_hostname": instance["node"],
        "OS-EXT-SRV-ATTR:instance_name": instance["uuid"],
        "OS-SRV-USG:launched_at": _plain(instance["launched_at"]),
        "OS-SRV-USG:terminated_at": _plain(instance["terminated_at"]),
        "os-extended-volumes:volumes_attached": [volume(request, each) for each in instance.get("volumes", ())],
    }
    if status(instance) in ("ACTIVE", "BUILD", "RESIZE", "REBUILD"):
        shown["progress"] = 100 if instance["vm_state"] == states.ACTIVE else 0
    if is_placed:
        shown["security_groups"] = [{"name": "default"}]
    shown.update(_newer(version, instance))
    if not identity.sees_all(request):
        if version < _HOSTNAME:
            shown.pop("OS-EXT-SRV-ATTR:hostname", None)
        for name in _OF_HOSTS:
            cast(JSONObject, shown).pop(name, None)
    return shown


def _task(instance: JSONMapping) -> str | None:
    """Return the task. The build of an unshelved instance is UNSHELVING until it spawns, as in nova."""
    task: str | None = instance["task_state"]
    if instance.get("is_unshelved") and task not in (states.SPAWNING, states.DELETING):
        return states.UNSHELVING
    return task


def _newer(version: microversions.Version, instance: JSONMapping) -> Newer:
    """Return the fields that came with later versions."""
    forms: Sequence[tuple[microversions.Version, Newer]] = (
        ((2, 3), {"OS-EXT-SRV-ATTR:hostname": instance.get("hostname") or host_name.of(instance["name"])}),
        ((2, 3), {"OS-EXT-SRV-ATTR:reservation_id": instance["reservation_id"], "OS-EXT-SRV-ATTR:launch_index": 0}),
        (_LOCKED, {"locked": is_locked(instance)}),
        (_HOST_STATUS, {"host_status": "UP" if instance["host"] else ""}),
        (_DESCRIPTION, {"description": instance.get("description") or None}),
        (_TAGS, {"tags": instance.get("tags", [])}),
        (_CERTIFICATES, {"trusted_image_certificates": None}),
        (_LOCKED_REASON, {"locked_reason": instance.get("locked_reason")}),
        (_PINNED_ZONE, {"pinned_availability_zone": None}),
        (_HINTS, {"scheduler_hints": dict(instance["scheduler_hints"])}),
    )
    found: Newer = {}
    for since, form in forms:
        if version >= since:
            found.update(form)
    return found


def whole(request: falcon.Request, shown: JSONMapping) -> Server:
    """Return a server as it is shown alone: with its groups, and its fault.

    :param shown: the conductor's answer to ``show_instance``
    """
    instance = shown["instance"]
    server: Server = {**view(request, instance)}
    server["os-extended-volumes:volumes_attached"] = [
        volume(request, each["volume"]) for each in shown.get("volumes", ())
    ]
    if request.context.version >= _GROUPS:
        server["server_groups"] = [instance["group_uuid"]] if instance["group_uuid"] else []
    if instance["vm_state"] in (states.ERROR, states.SHELVED_OFFLOADED) and shown["faults"]:
        server["fault"] = fault(shown["faults"][-1])
    return server


def changed(request: falcon.Request, shown: JSONMapping) -> Server | ChangedServer:
    """Return a server as the answer to a change has it. :param shown: as for :func:`whole`"""
    server = whole(request, shown)
    if request.context.version >= _WHOLE_AFTER_CHANGE:
        return server
    kept: JSONObject = {name: value for name, value in server.items() if name in _AFTER_CHANGE}
    kept["addresses"] = addresses.plain(shown["instance"])
    return cast(ChangedServer, kept)


def volume(request: falcon.Request, uuid: str) -> ServerVolume:
    """Return a volume that a server has."""
    return {"id": uuid, "delete_on_termination": False} if request.context.version >= _OUTLAST else {"id": uuid}


def fault(found: JSONMapping) -> ServerFault:
    """Return a fault, with the nearest miss if the conductor returns it, which it does not for projects."""
    details = found.get("details") or {}
    code = details.get("reason_code") or found["error"]
    misses = [str(miss["text"]) for miss in details.get("nearest") or ()][:1]
    message = " ".join([f"{code}: {found['message']}", *misses])
    return {"code": found["code"], "created": _seconds(found["created_at"]), "message": message[:2000]}


def _flavor(request: falcon.Request, flavor: JSONMapping) -> FlavorLink | FlavorInside:
    if request.context.version < _FLAVOR_INSIDE:
        path = f"/flavors/{flavor['flavorid']}"
        return {"id": flavor["flavorid"], "links": [microversions.link(request, path, "bookmark")]}
    return {
        "original_name": flavor["name"],
        "vcpus": flavor["vcpus"],
        "ram": flavor["memory_mb"],
        "disk": flavor["root_gb"],
        "ephemeral": flavor["ephemeral_gb"],
        "swap": flavor["swap"],
        "extra_specs": flavor["extra_specs"],
    }


def _image(request: falcon.Request, image: JSONMapping) -> ImageLink | str:
    if not image["id"]:
        return ""
    return {"id": image["id"], "links": [microversions.link(request, f"/images/{image['id']}", "bookmark")]}


def _seconds(moment: str | None) -> str | None:
    """Return a time without the part of a second."""
    return f"{moment[:19]}Z" if moment else None


def _plain(moment: str | None) -> str | None:
    """Return a time in microseconds, without a zone."""
    return f"{moment.removesuffix('Z')}000" if moment else None
