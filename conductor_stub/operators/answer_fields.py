# SPDX-License-Identifier: Apache-2.0
"""The fields of answers that leave the conductor for a project, by method. All other fields are dropped.

A method that a project may call has an entry. A field that is added to an answer is not shown to projects until it is
listed. Nothing that is summed over projects is listed: it says what others have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from fleet.json_codec import JSONObject
from fleet.objects.quota import RESOURCES

#: A scalar, or a list of scalars.
PLAIN = None


@dataclasses.dataclass(frozen=True)
class Instead:
    """A field that readers of the answer need and a project does not see: it always has this value."""

    value: object


@dataclasses.dataclass(frozen=True)
class Each:
    """A mapping whose keys are uuids. :param value: fields of each value"""

    value: object


#: Written by a user, or asked for by the request: shown as it is, at any depth.
THEIRS = object()
#: Stands for a name of a host, a node or a pool.
_PLACE = Instead(None)
_PLACES = Instead([])

#: PLAIN, THEIRS, Instead, Each, or the fields of a record; of a list of records, those of each.
Shown = Any
Fields = Mapping[str, Shown]
#: Of a method that answers nothing, or has no entry.
NOTHING: Fields = {}


def _plain(*names: str) -> dict[str, Shown]:
    return dict.fromkeys(names, PLAIN)


_CONTAINERS = frozenset({dict, list})
_WARNINGS = _plain("warnings")
_NEW = _plain("uuid", "name")
#: What ``redaction`` leaves of a failure.
_WHY = {**_plain("reason_code"), "filters": _plain("name", "start", "end")}
_FAILURE = {**_plain("code", "error", "message", "step"), "details": _WHY}
_FLAVOR = {
    **_plain("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap", "name", "flavorid", "id"),
    **_plain("is_public", "description"),
    "extra_specs": THEIRS,
}
_IMAGE = {**_plain("id", "name", "status", "min_ram", "min_disk", "size"), "properties": THEIRS}
_INSTANCE = {
    **_plain("uuid", "name", "project_id", "user_id", "reservation_id", "vm_state", "task_state", "power_state"),
    **_plain("attempt", "availability_zone", "created_at", "launched_at", "updated_at", "terminated_at", "deadline"),
    **_plain("request_id", "deleted", "group_uuid", "description", "tags", "key_name", "host_id"),
    **_plain(
        *("is_unshelved", "shelved_attempt", "task_deadline", "locked_by", "locked_reason"),
        *("access_ip_v4", "access_ip_v6", "hostname", "disk_config"),
    ),
    **_plain("claimed_memory_mb", "claimed_disk_gb", "claimed_vcpus"),
    "flavor": _FLAVOR,
    "image": _IMAGE,
    **dict.fromkeys(("metadata", "scheduler_hints", "numa_topology", "pci_requests"), THEIRS),
    **dict.fromkeys(("host", "node", "forced_host", "forced_node"), _PLACE),
    # Cells, CPUs and addresses of the host.
    **dict.fromkeys(("claimed_numa_topology", "claimed_pci_devices"), Instead(None)),
    "interfaces": {
        **_plain("uuid", "network", "name", "prefix", "gateway", "dns", "address", "mac"),
        "bridge": Instead(""),
    },
}
_FAULT = {**_FAILURE, **_plain("request_id", "created_at", "host_id"), "host": _PLACE}
_EVENT = {
    **_plain("event", "attempt", "step", "result", "message", "duration_s", "request_id", "created_at", "host_id"),
    **dict.fromkeys(("host", "node"), _PLACE),
}
_MIGRATION = {
    **_plain("uuid", "instance_uuid", "migration_type", "status", "attempt", "request_id", "copied_percent"),
    **_plain("created_at", "updated_at", "deadline", "old_flavor", "new_flavor", "resized", "project_id", "user_id"),
    **dict.fromkeys(("source_compute", "source_node", "dest_compute", "dest_node"), _PLACE),
    "failure": _FAILURE,
}
_QUEUED = _plain("reason", "message", "lacks", "queued_at", "wait_until")
_ATTACHMENT = {
    **_plain("uuid", "instance", "instance_name", "volume", "volume_name", "size_gb", "device", "status"),
    **_plain("created_at", "host_id"),
    "host": _PLACE,
}
_POWER = _plain("uuid", "name", "vm_state", "task_state")
_OF_STORAGE = {
    **_plain("uuid", "name", "size_gb", "status", "project_id", "user_id", "request_id", "host_id"),
    **_plain("created_at", "updated_at", "deadline"),
    "host": _PLACE,
    "metadata": THEIRS,
    "failure": _FAILURE,
}
_SNAPSHOT = {**_OF_STORAGE, **_plain("volume", "description")}
_VOLUME = {
    **_OF_STORAGE,
    **_plain("step", "attempt", "volume_type", "availability_zone", "description", "source", "snapshot", "image"),
    **_plain("bootable", "migrated"),
    "scheduler_hints": THEIRS,
    "tried": _PLACES,
    "reference": _PLACE,
    "migration": {**_plain("step", "copied_percent"), "pool": _PLACE},
    "attachments": _ATTACHMENT,
}
_GROUP = {
    **_plain("uuid", "name", "project_id", "user_id", "policy", "max_server_per_host", "members"),
    "rules": _plain("policy", "label", "max_members", "max_skew", "values"),
    "hosts": _PLACES,
}
_KEY_PAIR = _plain("name", "public_key", "type", "fingerprint", "created_at")
_NETWORK = {
    **_plain("uuid", "name", "subnet", "first", "last", "gateway", "dns", "is_default", "projects", "created_at"),
    "bridge": Instead(""),
}
#: A location may have a password.
_IMAGE_RECORD = {
    **_plain("name", "uuid", "checksum", "disk_format", "min_ram", "min_disk", "size", "created_at"),
    "properties": THEIRS,
    "location": Instead("/"),
}
_QUOTA = {**_plain("project_id"), **dict.fromkeys(("limits", "own", "default", "used"), _plain(*RESOURCES))}

_OF_INSTANCES: Fields = {
    "create": {**_plain("reservation_id"), "instances": _NEW, **_WARNINGS},
    "terminate_instances": NOTHING,
    "list_instances": {**_INSTANCE, **_plain("volumes")},
    "search_instances": {
        **_plain("total"),
        "states": _plain("state", "count"),
        "instances": {
            **_plain("uuid", "name", "project_id", "vm_state", "task_state", "power_state", "attempt", "created_at"),
            **_plain("flavor_name", "vcpus", "memory_mb", "disk_gb", "group_uuid", "label", "host_id"),
            "host": _PLACE,
        },
    },
    "show_instance": {
        "instance": _INSTANCE,
        "faults": _FAULT,
        "events": _EVENT,
        "migration": _MIGRATION,
        "queued": _QUEUED,
        "waits_for": Instead("its host, which is silent: until it is back, or off for certain"),
        "volumes": _ATTACHMENT,
    },
    **dict.fromkeys(("update_instance", "lock_instance", "unlock_instance"), _INSTANCE),
    "newest_faults": Each(_FAULT),
    "get_console_output": PLAIN,
    **dict.fromkeys(("stop_instance", "start_instance", "reboot_instance"), _POWER),
    **dict.fromkeys(("suspend_instance", "resume_instance", "rebuild_instance"), _POWER),
    **dict.fromkeys(("shelve_instance", "unshelve_instance"), _POWER),
    **dict.fromkeys(("resize_instance", "confirm_resize", "revert_resize", "list_migrations"), _MIGRATION),
    "list_queue": {
        "now": PLAIN,
        "builds": {**_QUEUED, **_plain("place", "uuid", "name", "project_id", "flavor"), "kept_host": _PLACE},
    },
    "list_decisions": {
        "decisions": {**_FAILURE, **_plain("at", "project_id", "flavor", "outcome", "instances")},
        "silent": Instead([]),
    },
    "list_events": {
        "events": {**_EVENT, **_plain("kind", "id", "uuid", "name", "project_id")},
        "position": Each(PLAIN),
    },
}
_OF_VOLUMES: Fields = {
    "create_volumes": {"volumes": _NEW, **_WARNINGS},
    "show_volume": {**_VOLUME, **_plain("snapshots"), "faults": _EVENT},
    **dict.fromkeys(("list_volumes", "update_volume", "extend_volume", "retype_volume", "delete_volume"), _VOLUME),
    "search_volumes": {
        **_plain("total"),
        "states": _plain("state", "count"),
        "volumes": {
            **_plain("uuid", "name", "project_id", "status", "step", "size_gb", "volume_type", "created_at", "host_id"),
            **dict.fromkeys(("host", "pool"), _PLACE),
        },
    },
    **dict.fromkeys(("create_snapshot", "list_snapshots", "show_snapshot"), _SNAPSHOT),
    **dict.fromkeys(("update_snapshot", "delete_snapshot"), _SNAPSHOT),
    **dict.fromkeys(("attach_volume", "detach_volume", "list_attachments"), _ATTACHMENT),
}
_OF_CATALOGS: Fields = {
    # Shares in the flavor mix are summed over all projects.
    "list_flavors": {**_FLAVOR, **dict.fromkeys(("share_of_requests", "share_of_core_hours"), Instead(None))},
    "show_flavor": _FLAVOR,
    **dict.fromkeys(("list_images", "show_image"), _IMAGE_RECORD),
    # Extra specs say where the volumes of a type are.
    "list_volume_types": {**_plain("id", "name", "description", "is_public"), "extra_specs": Instead({})},
    **dict.fromkeys(("list_groups", "show_group", "create_group", "update_group"), _GROUP),
    "delete_group": NOTHING,
    **dict.fromkeys(("list_key_pairs", "show_key_pair", "create_key_pair"), _KEY_PAIR),
    "delete_key_pair": NOTHING,
    # Projects must not learn the number of addresses that other projects have taken.
    **dict.fromkeys(("list_networks", "show_network"), _NETWORK),
    "show_quota": _QUOTA,
}
#: By method, the fields of its answer.
ANSWERS: Fields = {**_OF_INSTANCES, **_OF_VOLUMES, **_OF_CATALOGS}


def listed(answer: object, shown: Shown) -> object:
    """Return the fields of an answer that ``shown`` lists. :param answer: of any shape; what has another one is dropped"""
    if isinstance(shown, Instead):
        return shown.value
    if shown is THEIRS or answer is None:
        return answer
    if isinstance(answer, list):
        return [listed(each, shown) for each in answer]
    if shown is PLAIN:
        return None if isinstance(answer, dict) else answer
    if not isinstance(answer, dict):
        return None
    if isinstance(shown, Each):
        return {key: listed(value, shown.value) for key, value in answer.items()}
    return _of_record(answer, shown)


def _of_record(record: Mapping[str, object], shown: Fields) -> JSONObject:
    """Return the fields of a record that are shown. Most are scalars, which cost no call: a list has many records."""
    kept = {}
    for name, value in record.items():
        if name in shown:
            how = shown[name]
            is_scalar = how is PLAIN and type(value) not in _CONTAINERS
            kept[name] = value if is_scalar else listed(value, how)
    return kept
