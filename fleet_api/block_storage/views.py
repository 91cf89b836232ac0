# SPDX-License-Identifier: Apache-2.0
"""Volumes and snapshots in the form of OpenStack's block storage API. The resources beside it answer with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, NotRequired, cast

import falcon
import pydantic
from oslo_utils import uuidutils
from typing_extensions import TypedDict

from fleet import errors, volume_states
from fleet.json_codec import JSONMapping, JSONObject
from fleet_api.access import identity, rules
from fleet_api.access.identity import ADMIN
from fleet_api.requests import answers, bodies, microversions, paging

#: Fields that only users who may see all projects get.
_OF_POOLS = (
    *("os-vol-host-attr:host", "os-vol-mig-status-attr:migstat", "migration_status"),
    *("provider_id", "cluster_name"),
)
#: Parameters of every list, beside its filters.
PARAMETERS = ("limit", "marker", "offset", "all_tenants", "with_count", "sort", "sort_key", "sort_dir")
#: By the keys by which lists may be ordered: fields of the conductor.
_SNAPSHOTS_BY = {
    **{name: name for name in ("name", "status", "created_at", "updated_at")},
    "id": "uuid",
    "size": "size_gb",
    "display_name": "name",
}
_VOLUMES_BY = {**_SNAPSHOTS_BY, **{name: name for name in ("availability_zone", "host", "bootable", "volume_type")}}
#: Versions from which a volume has a field.
_GROUP, _PROVIDER, _SHARED, _CLUSTER, _TYPE_ID, _QUOTA = (3, 13), (3, 21), (3, 48), (3, 61), (3, 63), (3, 65)
_SNAPSHOT_USER = (3, 41)
View = Callable[[falcon.Request, JSONMapping], object]
Show = Callable[..., JSONMapping]

#: Marks fields that only some senders get.
OF_ALL = pydantic.Field(description="Only for users who may see volumes of all projects.")


class BriefVolume(TypedDict):
    id: str
    name: str
    links: list[answers.Link]


class VolumeAttachment(TypedDict):
    id: str
    attachment_id: str
    volume_id: str
    server_id: str
    host_name: str | None
    device: str
    attached_at: str | None


_Volume = TypedDict(
    "_Volume",
    {
        "size": int,
        "status": str,
        "availability_zone": str | None,
        "bootable": str,
        "encrypted": bool,
        "multiattach": bool,
        "attachments": list[VolumeAttachment],
        "volume_type": str | None,
        "snapshot_id": str | None,
        "source_volid": str | None,
        "metadata": dict[str, str],
        "description": str | None,
        "replication_status": None,
        "consistencygroup_id": None,
        "user_id": str,
        "os-vol-tenant-attr:tenant_id": NotRequired[str],
        "os-vol-host-attr:host": NotRequired[Annotated[str | None, OF_ALL]],
        "os-vol-mig-status-attr:migstat": NotRequired[Annotated[str | None, OF_ALL]],
        "migration_status": NotRequired[Annotated[str | None, OF_ALL]],
        "created_at": str | None,
        "updated_at": str | None,
        "group_id": NotRequired[Annotated[None, answers.since("3.13")]],
        "provider_id": NotRequired[Annotated[None, answers.since("3.21", answers.OF_ALL_PROJECTS)]],
        "service_uuid": NotRequired[Annotated[None, answers.since("3.48")]],
        "shared_targets": NotRequired[Annotated[bool, answers.since("3.48")]],
        "cluster_name": NotRequired[Annotated[None, answers.since("3.61", answers.OF_ALL_PROJECTS)]],
        "volume_type_id": NotRequired[Annotated[None, answers.since("3.63")]],
        "consumes_quota": NotRequired[Annotated[bool, answers.since("3.65")]],
    },
)


class VolumeShown(BriefVolume, _Volume):
    """A volume, its size in GiB."""


class BriefSnapshot(TypedDict):
    id: str
    name: str
    status: str
    size: int
    volume_id: str | None
    description: str | None
    metadata: dict[str, str]
    created_at: str | None
    updated_at: str | None
    user_id: NotRequired[Annotated[str, answers.since("3.41")]]
    consumes_quota: NotRequired[Annotated[bool, answers.since("3.65")]]


_Snapshot = TypedDict(
    "_Snapshot",
    {
        "os-extended-snapshot-attributes:project_id": str,
        "os-extended-snapshot-attributes:progress": str,
    },
)


class SnapshotShown(BriefSnapshot, _Snapshot):
    """A snapshot, its size in GiB."""


def brief_volume(request: falcon.Request, volume: JSONMapping) -> BriefVolume:
    links = microversions.links(request, f"/volumes/{volume['uuid']}", microversions.VOLUME)
    return {"id": volume["uuid"], "name": volume["name"], "links": links}


def volume(request: falcon.Request, found: JSONMapping) -> VolumeShown:
    """Return a volume as a list with details shows it."""
    moving = _migration_status(found)
    shown: VolumeShown = {
        **brief_volume(request, found),
        "size": found["size_gb"],
        "status": found["status"],
        "availability_zone": found["availability_zone"],
        # A conductor that is older knows only whether it began as an image.
        "bootable": "true" if found.get("bootable", found["image"]) else "false",
        "encrypted": False,
        "multiattach": False,
        "attachments": [_attachment(each) for each in found.get("attachments", ())],
        "volume_type": found["volume_type"],
        "snapshot_id": found["snapshot"],
        "source_volid": found["source"],
        "metadata": found["metadata"],
        "description": found.get("description") or None,
        "replication_status": None,
        "consistencygroup_id": None,
        "user_id": found["user_id"] or ADMIN,
        "os-vol-tenant-attr:tenant_id": found["project_id"] or ADMIN,
        "os-vol-host-attr:host": found["host"],
        "os-vol-mig-status-attr:migstat": moving,
        "migration_status": moving,
        "created_at": plain(found["created_at"]),
        "updated_at": plain(found["updated_at"]),
    }
    version = request.context.version
    for since, name, value in _NEWER:
        if version >= since:
            cast(JSONObject, shown)[name] = value
    if not sees_all(request):
        for name in _OF_POOLS:
            cast(JSONObject, shown).pop(name, None)
    return shown


def _migration_status(found: JSONMapping) -> str | None:
    """Return the step of a migration, or how the last one has ended; None if there was none."""
    if found["status"] in (volume_states.MIGRATING, volume_states.RETYPING) and found.get("migration"):
        step: str | None = found["migration"]["step"]
        return step
    # A conductor that is older does not know it.
    ended = found.get("migrated")
    return None if ended is None else "success" if ended else "error"


def new_volume(request: falcon.Request, found: JSONMapping) -> VolumeShown:
    """Return a volume as the answer to its creation or a change has it: without its place and project."""
    shown = volume(request, found)
    for name in (*_OF_POOLS, "os-vol-tenant-attr:tenant_id"):
        if name != "migration_status":
            cast(JSONObject, shown).pop(name, None)
    return shown


#: What is the same of all volumes, with the version from which it is there.
_NEWER: Sequence[tuple[microversions.Version, str, object]] = (
    (_GROUP, "group_id", None),
    (_PROVIDER, "provider_id", None),
    (_SHARED, "service_uuid", None),
    (_SHARED, "shared_targets", False),
    (_CLUSTER, "cluster_name", None),
    (_TYPE_ID, "volume_type_id", None),
    (_QUOTA, "consumes_quota", True),
)


def _attachment(found: JSONMapping) -> VolumeAttachment:
    return {
        "id": found["volume"],
        "attachment_id": found["uuid"],
        "volume_id": found["volume"],
        "server_id": found["instance"],
        "host_name": found["host"],
        "device": f"/dev/{found['device']}",
        "attached_at": plain(found["created_at"]),
    }


def brief_snapshot(request: falcon.Request, found: JSONMapping) -> BriefSnapshot:
    shown: BriefSnapshot = {
        "id": found["uuid"],
        "name": found["name"],
        "status": found["status"],
        "size": found["size_gb"],
        "volume_id": found["volume"],
        "description": found.get("description") or None,
        "metadata": found["metadata"],
        "created_at": plain(found["created_at"]),
        "updated_at": plain(found["updated_at"]),
    }
    if request.context.version >= _SNAPSHOT_USER:
        shown["user_id"] = found["user_id"] or ADMIN
    if request.context.version >= _QUOTA:
        shown["consumes_quota"] = True
    return shown


def snapshot(request: falcon.Request, found: JSONMapping) -> SnapshotShown:
    return {
        **brief_snapshot(request, found),
        "os-extended-snapshot-attributes:project_id": found["project_id"] or ADMIN,
        "os-extended-snapshot-attributes:progress": "100%" if found["status"] == "available" else "0%",
    }


def listed(
    request: falcon.Request, found: Sequence[JSONMapping], path: str, shown: View, most: int, show: Show
) -> JSONObject:
    """Return the part of a list that the request asks for, the newest first.

    :param path: of the list, below ``/v3``
    :param show: the conductor's method that returns one of them, also if it is not in the list any more
    :raises errors.NotFound: the marker names none of them
    """
    kind, marker = path.partition("/")[0], request.get_param("marker")
    left = _left(request, found, kind, marker, show) if marker else []
    found = [*found, *left]
    newest = sorted(found, key=lambda each: (each["created_at"], each["uuid"]), reverse=True)
    known = _VOLUMES_BY if kind == "volumes" else _SNAPSHOTS_BY
    found = paging.ordered(request, newest, known, "created_at", has_sort=True)
    count, found = len(found) - len(left), found[bodies.number(request, "offset") or 0 :]
    uuids = [each["uuid"] for each in found]
    if marker and marker not in uuids:
        raise _no_marker(kind, marker)
    part, more = paging.cut(request, found, uuids, most)
    answer: JSONObject = {kind: [shown(request, each) for each in part]}
    if bodies.flag(request, "with_count"):
        answer["count"] = count
    # A full part has a link, also if nothing follows: clients go on until a part is not full.
    if more or (part and request.has_param("limit") and len(part) == paging.limit_of(request, most)):
        answer[f"{kind}_links"] = paging.next_link(request, f"/{path}", part[-1]["uuid"], microversions.VOLUME)
    return answer


def _left(
    request: falcon.Request, found: Sequence[JSONMapping], kind: str, marker: str, show: Show
) -> Sequence[JSONMapping]:
    """Return what the marker names if it has left the list since the last part: its place in the order stays.

    :raises errors.NotFound:
    """
    if any(each["uuid"] == marker for each in found):
        return []
    try:
        last = show(name=marker) if uuidutils.is_uuid_like(marker) else None
    except errors.NotFound:
        last = None
    if last is None or last["uuid"] != marker or not _is_own(request, last):
        raise _no_marker(kind, marker)
    return [last]


def _no_marker(kind: str, marker: str) -> errors.NotFound:
    return errors.NotFound(kind=f"The marker in {kind}:", name=marker[:100])


def filters(request: falcon.Request, known: Mapping[str, str]) -> JSONObject:
    """Return the conductor's filters. :param known: its names, by parameter

    :raises Fault: volumes of other projects are asked for, and the sender may not see them
    """
    found: JSONObject = {ours: value for name, ours in known.items() if (value := request.get_param(name))}
    if not (bodies.flag(request, "all_tenants") or request.context.is_open):
        found["project_id"] = request.context.caller.project_id
    elif not request.context.is_open:
        identity.require(request, rules.ALL_VOLUMES)
    return found


def sees_all(request: falcon.Request) -> bool:
    """Return True if the sender may see volumes of all projects, and their pools."""
    return identity.allows(request, rules.ALL_VOLUMES)


def require_own(request: falcon.Request, found: JSONMapping, kind: str, name: str) -> None:
    """:raises errors.NotFound: it belongs to another project, or was deleted"""
    if found["status"] == "deleted" or not _is_own(request, found):
        raise errors.NotFound(kind=kind, name=name)


def _is_own(request: falcon.Request, found: JSONMapping) -> bool:
    return sees_all(request) or found["project_id"] == request.context.caller.project_id


def plain(moment: str | None) -> str | None:
    """Return a time in microseconds, without a zone."""
    return f"{moment.removesuffix('Z')}000" if moment else None
