# SPDX-License-Identifier: Apache-2.0
"""Whose each method of the wire contract is, and arguments that name what is theirs. A new method needs a line here.

``PROJECT``: of a caller that acts for a project. ``ADMIN``: of operators. ``COMPUTE`` and ``VOLUME``: of agents.
``SERVICE``: between conductors and schedulers. ``CLIENT``: of clients, to schedulers. ``ANY``: of everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

PROJECT, ADMIN, COMPUTE, VOLUME, AGENTS, SERVICE, CLIENT, ANY = (
    *("project", "admin", "compute", "volume", "agents"),
    *("service", "client", "any"),
)


class Method(NamedTuple):
    namespace: str | None
    name: str


def _of(namespace: str | None, names: str) -> tuple[Method, ...]:
    return tuple(Method(namespace, name) for name in names.split())


_SCHEDULERS = ("scheduler", "volume_scheduler")
#: By whose it is; of the topics of conductors.
_CONDUCTORS: Mapping[str, tuple[Method, ...]] = {
    PROJECT: (
        *_of("compute_task", "create terminate_instances"),
        *_of("operator", "show_instance update_instance stop_instance start_instance reboot_instance suspend_instance"),
        *_of("operator", "lock_instance unlock_instance rebuild_instance shelve_instance unshelve_instance"),
        *_of("operator", "resume_instance resize_instance confirm_resize revert_resize get_console_output"),
        *_of(
            "operator", "list_instances newest_faults list_migrations list_queue list_events list_decisions show_quota"
        ),
        *_of("operator", "search_instances search_volumes"),
        *_of("operator", "show_group update_group delete_group create_group list_groups"),
        *_of("operator", "show_key_pair delete_key_pair create_key_pair list_key_pairs show_network list_networks"),
        *_of("operator", "show_flavor list_flavors show_image list_images list_volume_types"),
        *_of(
            "operator",
            "show_volume update_volume extend_volume retype_volume delete_volume create_volumes list_volumes",
        ),
        *_of("operator", "show_snapshot update_snapshot delete_snapshot create_snapshot list_snapshots"),
        *_of("operator", "attach_volume detach_volume list_attachments"),
    ),
    ADMIN: (
        *_of(
            "operator",
            "trace examine request_of requests_of request_for list_hosts show_host host_table delete_host use_over_time",
        ),
        *_of("operator", "list_zones list_host_states list_services update_service delete_service force_down"),
        *_of("operator", "create_flavor update_flavor delete_flavor create_image delete_image"),
        *_of("operator", "list_flavor_access add_flavor_access remove_flavor_access"),
        *_of("operator", "list_volume_type_access add_volume_type_access remove_volume_type_access"),
        *_of("operator", "create_aggregate show_aggregate list_aggregates rename_aggregate delete_aggregate"),
        *_of("operator", "add_aggregate_host remove_aggregate_host set_aggregate_metadata"),
        *_of("operator", "list_quotas set_quota delete_quota list_acts"),
        *_of("operator", "create_network delete_network set_host_labels"),
        *_of("operator", "list_tolerances set_tolerance unset_tolerance"),
        *_of("operator", "create_maintenance list_maintenances show_maintenance pause_maintenance cancel_maintenance"),
        *_of("operator", "skip_maintenance_host"),
        *_of("operator", "list_balances list_balance_rounds suggest_balance run_balance pause_balance"),
        *_of("operator", "list_recoveries show_recovery pause_recovery start_recovery"),
        *_of(
            "operator", "migrate_instance evacuate_instance live_migrate_instance abort_live_migration live_obstacles"
        ),
        *_of("operator", "shelve_offload_instance reset_state"),
        *_of("operator", "create_volume_type update_volume_type delete_volume_type list_pools migrate_volume"),
        *_of("operator", "manage_volume unmanage_volume list_manageable"),
    ),
    AGENTS: _of(None, "register_services require_free leave report_state"),
    COMPUTE: (
        *_of(None, "report_hosts get_host_instances compare_instances report_guest get_image get_boot_data power_done"),
        *_of(None, "restart_guest"),
        *_of(None, "claim_instance finish_build build_steps instance_destroyed get_attachments attachment_done"),
        *_of("compute_task", "reschedule abort_build"),
        *_of("migration", "get_host_migrations claim_migration migration_done migration_copied migration_failed"),
    ),
    VOLUME: (
        *_of("volume", "report_pools get_host_volumes get_removable_volumes volume_done volume_failed volume_measured"),
        *_of("volume", "volume_steps"),
    ),
    SERVICE: (
        *_of("compute_task", "build_instances"),
        *_of("migration", "place_migration"),
        *_of("volume", "place_volume"),
    ),
    ANY: _of("baseapi", "ping"),
}
_SCHEDULING: Mapping[str, tuple[Method, ...]] = {
    CLIENT: _of(None, "select_destinations explain capacity describe_filters"),
    COMPUTE: _of(None, "update_instance_info delete_instance_info sync_instance_info"),
    SERVICE: (
        *_of(None, "update_aggregates delete_aggregate note_bookings plan_loss decisions_of"),
        *_of(
            None, "select_backend create_volume migrate_volume_to_host retype extend_volume manage_existing get_pools"
        ),
        *_of(None, "validate_host_capacity update_service_capabilities notify_service_capabilities"),
    ),
    ANY: _of("baseapi", "ping"),
}


def whose(topic: str, method: Method) -> str | None:
    """Return whose it is; None: the tables lack it."""
    table = _SCHEDULING if topic in _SCHEDULERS else _CONDUCTORS
    return next((owner for owner, methods in table.items() if method in methods), None)


#: By the end of a method's name: what its argument ``name`` names.
_KINDS: Mapping[str, str] = {
    "attach_volume": "server",
    "detach_volume": "server",
    **dict.fromkeys(("_instance", "_resize", "console_output", "trace", "request_of", "live_migration"), "server"),
    "reset_state": "server",
    "_volume": "volume",
    "_snapshot": "snapshot",
    "_group": "group",
    "_key_pair": "key_pair",
    "_network": "network",
    "_image": "image",
    "_flavor": "flavor",
    "_aggregate": "racks",
    "_aggregate_host": "racks",
    "_metadata": "racks",
    "show_host": "host",
    "_volume_type": "fast",
    "list_pools": "pool",
}
_CLAIM = {"memory_mb": 64, "disk_gb": 1, "vcpus": 1}
_FAILURE = {"step": "spawning", "code": "Broken", "message": "It broke."}
_STEP = {"attempt": 1, "host": "{caller}", "incarnation": "one", "request_id": "req-1", "project_id": "{project}"}
_FINISH = {**_STEP, "method": "finish_build", "instance_uuid": "{building}", "power_state": 4}
_CLAIMED = {**_STEP, "method": "claim_instance", "instance_uuid": "{building}", "node": "{caller}", "claim": _CLAIM}
_REPORT = {"host": "{caller}", "node": "{caller}", "vcpus": 64, "memory_mb": 65536, "local_gb": 1000}
_VOLUME_SPEC = {
    "volume_properties": {"size": 1, "host": "{backend}#pool"},
    "volume_id": "{volume}",
    "volume_type": {"name": "fast"},
}
_SPEC = {"num_instances": 1, "instance_type": {"vcpus": 1, "memory_mb": 64}, "instance_uuids": ["{server}"]}
#: By the name of an argument, ``method.argument`` or ``topic.argument``: a value.
#: Arguments with a default that are not here are left out.
ARGUMENTS: Mapping[str, Any] = {
    "instance_uuid": "{server}",
    "instance_uuids": ["{server}", "{moving}"],
    "uuids": ["{server}", "{moving}"],
    "volume_uuid": "{volume}",
    "volume_uuids": ["{volume}"],
    "volume_ids": ["{volume}"],
    "volume": "{volume}",
    "migration_uuid": "{migration}",
    "migration": "{migration}",
    "attachment_uuid": "{attachment}",
    "host": "{caller}",
    "node": "{caller}",
    "hosts": ["{caller}"],
    "host_name": "{caller}",
    "incarnation": "one",
    "attempt": 1,
    "binary": "{binary}",
    "claim": _CLAIM,
    "failure": _FAILURE,
    "power_state": 4,
    "percent": 5,
    "task_state": "powering-off",
    "expected": 1,
    "status": "creating",
    "size_gb": 9,
    "size": 9,
    "image_id": "{image}",
    "alternates": [{"host": "{caller}", "nodename": "{caller}"}],
    "nodes": {"{caller}": ["{caller}"]},
    "held": {"{caller}": ["{server}"]},
    "power": {"{caller}": {"{server}": 4}},
    "pools": {"{caller}": ["pool"]},
    "copies": {"{caller}": {"{volume}": 7}},
    "alarms": {"{caller}": "it burns"},
    "row": None,
    "columns": ["host"],
    "services": [{"host": "{caller}", "binary": "{binary}", "topic": "{topic}", "incarnation": "one"}],
    "filters": {"project_id": "{project}"},
    "project_id": "{project}",
    "limits": {"instances": 7},
    "new_name": "new",
    "flavor": "big",
    "changes": {"description": "mine"},
    "policy": "affinity",
    "state": "error",
    # Only the administrator names a host; test_shelving has the refusal.
    "unshelve_instance.host": None,
    "metadata": {"a": "b"},
    "disabled": True,
    "forced": True,
    "extra_specs": {"a": "b"},
    "volume_type": "fast",
    "request_spec": _SPEC,
    "filter_properties": {},
    "aggregates": [],
    "aggregate": {"id": 1},
    "bookings": [],
    "sender": "a scheduler",
    "backend": "{backend}#pool",
    "new_size": 2,
    "new_type": "fast",
    "capabilities": {},
    "service_name": "volume",
    "context": None,
    "best": 3,
    "instance_info": {"host": "{caller}", "instance": "{server}"},
    "arg": "hello",
    "after": {"instance": 0, "volume": 0},
    # Events of a host are the administrator's; test_events has the refusal.
    "list_events.host": None,
    "build_steps.steps": [_CLAIMED, _FINISH],
    "volume_steps.steps": [{**_STEP, "method": "volume_done", "volume_uuid": "{volume}", "status": "creating"}],
    "report_hosts.reports": [_REPORT],
    "report_pools.reports": [{"host": "{caller}", "pool": "pool", "capabilities": {"total_capacity_gb": 100}}],
    **{
        f"{step}.instance_uuid": "{building}"
        for step in ("claim_instance", "finish_build", "reschedule", "abort_build")
    },
    "migration_done.status": "finished",
    "migration_failed.status": "resizing",
    "attachment_done.status": "attaching",
    "create.request": {
        "flavor": "small",
        "group": "{group}",
        "networks": [{"network": "{network}"}],
        "block_device_mapping": [{"volume_id": "{volume}"}],
    },
    "create_volumes.request": {"size": 1, "source": "{volume}"},
    "manage_volume.request": {"host": "{backend}", "pool": "pool", "reference": "lost"},
    "request_for.request": {"flavor": "small"},
    "rebuild_instance.request": {"image": "{image}", "key_name": "{key_pair}"},
    **{f"{verb}_flavor_access.name": "hidden" for verb in ("list", "add", "remove")},
    "add_flavor_access.project_id": "another",
    **{f"{verb}_volume_type_access.name": "hidden" for verb in ("list", "add", "remove")},
    "add_volume_type_access.project_id": "another",
    "create_flavor.flavor": {"name": "new", "vcpus": 1, "memory_mb": 64},
    "create_image.image": {"name": "new", "location": "/images/new.raw"},
    "create_volume_type.volume_type": {"name": "new"},
    "create_key_pair.key_pair": {"name": "new", "public_key": "{public_key}"},
    "create_network.network": {"name": "new", "bridge": "br9", "subnet": "10.9.0.0/24"},
    "create_group.name": "new",
    "plan_loss.requests": [],
    "list_decisions.request_id": "req-1",
    "decisions_of.request_id": "req-1",
    "pause_recovery.paused": True,
    "set_tolerance.tolerance": {"kind": "aggregate", "name": "racks"},
    "unset_tolerance.kind": "fleet",
    "create_maintenance.maintenance": {"name": "new", "waves": [["quarry-three"]]},
    **{f"{verb}_maintenance.name": "kernel" for verb in ("show", "pause", "cancel")},
    "pause_maintenance.paused": True,
    "skip_maintenance_host.name": "kernel",
    **{f"{verb}_balance.aggregate": "racks" for verb in ("suggest", "run", "pause")},
    "list_balance_rounds.aggregate": "racks",
    "pause_balance.paused": True,
    "skip_maintenance_host.host": "quarry-two",
    "show_recovery.name": "{host}",
    "create_group.rules": [{"policy": "spread", "label": "rack"}],
    "set_host_labels.labels": {"rack": "r1"},
    "create_aggregate.name": "new",
    "create_snapshot.name": "new",
    "update_flavor.changes": {"vcpus": 2},
    "remove_aggregate_host.host": "quarry-one",
    **{f"{moved}_instance.host": "quarry-three" for moved in ("migrate", "live_migrate", "evacuate")},
    **{f"{method}.host": "{backend}#pool" for method in ("list_manageable", "migrate_volume_to_host")},
    "migrate_volume.host": "vault-one@disks#pool",
    **{f"{method}.failure": "It broke." for method in ("attachment_done", "power_done")},
    "volume_scheduler.request_spec": _VOLUME_SPEC,
}


def arguments_of(
    topic: str, method: Method, parameters: Mapping[str, bool], name_of: Callable[[str], str]
) -> dict[str, Any]:
    """Return arguments with ``{server}`` and the like in them.

    :param parameters: whether each is required
    :param name_of: what stands for an object of a kind: its uuid, its name, or a part of it
    :raises KeyError: a required argument that ARGUMENTS lacks
    """
    found = {}
    for parameter, is_required in parameters.items():
        keys = (f"{method.name}.{parameter}", f"{topic}.{parameter}", parameter)
        key = next((each for each in keys if each in ARGUMENTS), None)
        if key is not None:
            found[parameter] = ARGUMENTS[key]
        elif parameter == "name" and (kind := _kind(method.name)):
            found[parameter] = name_of(kind)
        elif is_required:
            raise KeyError(f"{method.name}.{parameter}")
    return found


def _kind(method: str) -> str | None:
    """The longest end decides: ``_aggregate_host`` is of an aggregate."""
    ends = [end for end in _KINDS if method.endswith(end)]
    return _KINDS[max(ends, key=len)] if ends else None
