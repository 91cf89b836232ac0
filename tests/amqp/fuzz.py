# SPDX-License-Identifier: Apache-2.0
"""Malformed messages, the same for the same seed: bodies, properties, envelopes, contexts and arguments of every method."""

from __future__ import annotations

import dataclasses
import inspect
import json
import random
import uuid
from collections.abc import Iterator
from typing import Any

from compute_agent.manager import ComputeManager
from conductor_stub.agents.manager import ConductorManager
from conductor_stub.builds.manager import ComputeTaskManager
from conductor_stub.moves.intake import MoveIntake
from conductor_stub.moves.manager import MigrationManager
from conductor_stub.operators.catalog import CatalogManager
from conductor_stub.operators.console import ConsoleManager
from conductor_stub.operators.details import DetailsManager
from conductor_stub.operators.events import EventsManager
from conductor_stub.operators.groups import GroupManager
from conductor_stub.operators.hosts import HostsManager
from conductor_stub.operators.key_pairs import KeyPairManager
from conductor_stub.operators.manager import OperatorManager
from conductor_stub.operators.quotas import QuotaManager
from conductor_stub.operators.use import UseManager
from conductor_stub.volumes.existing import ExistingIntake
from conductor_stub.volumes.intake import VolumeIntake
from conductor_stub.volumes.manager import VolumeManager
from conductor_stub.volumes.migrations import MigrationIntake
from conductor_stub.volumes.snapshots import SnapshotIntake
from scheduler.compute.manager import SchedulerManager
from scheduler.volumes.manager import VolumeSchedulerManager
from tests.amqp.raw import EXCHANGE
from volume_agent.manager import BackendManager

HOST_EXCHANGE = "fleet_hosts"
#: By topic and namespace. Methods that create or end what others need are given no argument that they would take.
METHODS: dict[str, dict[str | None, list[str]]] = {
    "conductor": {
        None: ["register_services", "require_free", "leave", "report_state", "report_hosts", "get_host_instances",
               "compare_instances", "power_done", "get_attachments", "attachment_done",
               "claim_instance", "finish_build", "build_steps", "instance_destroyed"],
        "compute_task": ["create", "build_instances", "reschedule", "abort_build", "terminate_instances"],
        "migration": ["place_migration", "get_host_migrations", "claim_migration", "migration_done", "migration_failed"],
        "operator": ["list_instances", "show_instance", "trace", "examine", "request_of", "requests_of", "request_for",
                     "list_hosts",
                     "show_host", "list_services", "update_service", "list_flavors", "create_flavor", "list_aggregates",
                     "create_aggregate", "add_aggregate_host", "remove_aggregate_host", "set_aggregate_metadata",
                     "list_groups", "create_group", "resize_instance", "confirm_resize", "revert_resize",
                     "evacuate_instance", "update_instance", "list_events", "show_key_pair", "delete_key_pair",
                     "list_key_pairs", "create_key_pair", "stop_instance", "start_instance", "reboot_instance",
                     "suspend_instance", "resume_instance", "lock_instance", "unlock_instance", "reset_state",
                     "rebuild_instance", "shelve_instance", "unshelve_instance", "shelve_offload_instance",
                     "live_migrate_instance", "abort_live_migration", "list_migrations",
                     "force_down", "show_flavor", "delete_flavor",
                     "show_aggregate", "delete_aggregate", "show_group", "delete_group", "delete_service", "delete_host",
                     "create_volumes", "list_volumes", "show_volume", "delete_volume", "extend_volume", "migrate_volume",
                     "retype_volume", "list_pools", "create_volume_type", "update_volume_type", "delete_volume_type",
                     "list_volume_types", "create_snapshot", "list_snapshots", "show_snapshot", "delete_snapshot",
                     "get_console_output", "list_quotas", "list_acts", "show_quota", "delete_quota", "manage_volume",
                     "unmanage_volume", "list_manageable", "attach_volume", "detach_volume", "list_attachments",
                     "update_volume", "use_over_time", "host_table", "list_zones",
                     "list_host_states"],
        "volume": ["place_volume", "report_pools", "get_host_volumes", "get_removable_volumes", "volume_done",
                   "volume_failed", "volume_measured", "volume_steps"],
        "baseapi": ["ping"],
    },
    "scheduler": {
        None: ["select_destinations", "explain", "capacity", "update_aggregates", "delete_aggregate",
               "update_instance_info", "delete_instance_info", "sync_instance_info", "note_bookings"],
        "baseapi": ["ping"],
    },
    "compute": {
        None: ["build_and_run_instance", "terminate_instance", "advance_migration", "advance_power", "advance_attachments",
               "live_migration_abort", "describe_host", "get_console_output"],
        "baseapi": ["ping"],
    },
}  # fmt: skip
METHODS["conductor_ledger"] = METHODS["conductor"]
METHODS["volume_conductor"] = METHODS["conductor"]
METHODS["volume_scheduler"] = {
    None: ["select_backend", "create_volume", "migrate_volume_to_host", "retype", "extend_volume", "manage_existing",
           "validate_host_capacity", "get_pools", "explain", "capacity", "update_service_capabilities",
           "notify_service_capabilities"],
    "baseapi": ["ping"],
}  # fmt: skip
METHODS["volume"] = {None: ["advance_volume", "get_manageable", "get_connection"], "baseapi": ["ping"]}
#: What they would leave behind is not for other tests to find: they get no argument of their own on purpose.
_LEAVE_BEHIND = {"create", "create_key_pair", "create_flavor", "create_aggregate", "create_group", "register_services",
                 "report_hosts", "create_volumes", "manage_volume", "create_volume_type", "create_snapshot",
                 "report_pools"}  # fmt: skip
_ENDPOINTS = (ConductorManager, ComputeTaskManager, MigrationManager, OperatorManager, CatalogManager, ConsoleManager,
              DetailsManager, EventsManager, GroupManager, HostsManager, KeyPairManager, QuotaManager, UseManager,
              MoveIntake, VolumeIntake, SnapshotIntake, MigrationIntake, ExistingIntake, VolumeManager,
              BackendManager, VolumeSchedulerManager, SchedulerManager, ComputeManager)  # fmt: skip
#: The arguments that a method has.
_PARAMETERS: dict[str, list[str]] = {
    name: [each for each in inspect.signature(method).parameters if each not in ("self", "context")]
    for endpoint in _ENDPOINTS
    for name, method in inspect.getmembers(endpoint, inspect.isfunction)
    if not name.startswith("_") and name not in _LEAVE_BEHIND
}
_NAMES = ["instance_uuid", "instance_uuids", "attempt", "host", "node", "incarnation", "claim", "limits", "request",
          "client_token", "services", "hosts", "binary", "reports", "nodes", "alarms", "held", "steps", "failure",
          "alternates", "name", "filters", "flavor", "metadata", "policy", "changes", "key_pair", "request_spec",
          "filter_properties", "best", "group_by", "aggregates", "aggregate", "instance_info", "host_name", "instance",
          "deadline", "arg",
          "context", "self", "volume_uuid", "volume_uuids", "volume", "volume_type", "size", "pools", "new_size", "backend",
          "extra_specs", "capabilities", "project_id",
          "migration_uuid", "status", "uuids", "rpc_version", "release", "idle", "forced", "unknown"]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Message:
    exchange: str
    routing_key: str
    body: bytes
    properties: dict[str, Any]


def messages(seed: int, count: int, hosts: list[str], backends: list[str], reply_to: str) -> Iterator[Message]:
    chance = random.Random(seed)
    kinds = [_bad_body, _bad_properties, _bad_envelope, _bad_frame, _bad_context, _bad_arguments, _bad_arguments]
    for number in range(count):
        topic = chance.choice(list(METHODS))
        servers = {"compute": hosts, "volume": backends}.get(topic)
        where = (HOST_EXCHANGE, f"{topic}.{chance.choice(servers)}") if servers else (EXCHANGE, topic)
        body, properties = kinds[number % len(kinds)](chance, topic, reply_to)
        yield Message(*where, body, {"content_type": "application/json", "content_encoding": "utf-8", **properties})


_Made = tuple[bytes, dict[str, Any]]


def _bad_body(chance: random.Random, topic: str, reply_to: str) -> _Made:
    return chance.choice([b"", b"{", b"\xff\xfe\x00", b"null", b"[]", b'"text"', b"1e999", b"NaN", b"[" * 3000,
                          b'{"a":' * 2000, b'{"oslo.version": "2.0"}', bytes(range(256)), b"{}" * 10]), {}  # fmt: skip


def _bad_properties(chance: random.Random, topic: str, reply_to: str) -> _Made:
    body = _enveloped(_call(chance, topic, reply_to))
    return body, chance.choice(
        [
            {"content_type": "application/x-python-serialize"},
            {"content_type": "application/x-yaml"},
            {"content_type": "text/plain"},
            {"content_type": ""},
            {"content_type": "application/data"},
            {"content_encoding": "utf-7"},
            {"content_encoding": "nonsense"},
            {"content_encoding": "binary"},
            {"content_encoding": ""},
            {"application_headers": {"compression": "application/x-gzip"}},
            {"application_headers": {"compression": "nonsense"}},
            {"application_headers": {"x-death": [{"count": -1}]}},
        ]
    )


def _bad_envelope(chance: random.Random, topic: str, reply_to: str) -> _Made:
    inner = json.dumps(_call(chance, topic, reply_to))
    envelope = {"oslo.version": "2.0", "oslo.message": inner}
    envelope[chance.choice(list(envelope))] = chance.choice(
        [None, 1, [], {}, "", "3.0", "x.y", "2", inner[:-1], inner + "x", "[]", "null", "9" * 5000, "{" * 2000, True]
    )
    return json.dumps(envelope).encode(), {}


def _bad_frame(chance: random.Random, topic: str, reply_to: str) -> _Made:
    """What oslo.messaging itself reads."""
    message = _call(chance, topic, reply_to)
    key = chance.choice(["method", "args", "namespace", "version", "_msg_id", "_reply_q", "_timeout", "_unique_id"])
    if chance.random() < 0.2:
        message.pop(key, None)
    else:
        message[key] = chance.choice(
            [_value(chance), float("inf"), float("nan"), 1e308, -1, "9" * 5000, "1.x", "1.0.0.0", "\ud800", "a\x00b",
             "x" * 300, {"a": 1}, [1], True, None, "__init__", "_asked", "target"]
        )  # fmt: skip
    return _enveloped(message), {}


def _bad_context(chance: random.Random, topic: str, reply_to: str) -> _Made:
    message = _call(chance, topic, reply_to)
    for _key in range(chance.randint(1, 3)):
        key = chance.choice(["request_id", "project_id", "user_id", "roles", "is_admin", "instance_uuid", "attempt",
                             "host", "fleet_signature", "fleet_ledger", "global_request_id", "auth_token", "x"])  # fmt: skip
        message[f"_context_{key}"] = chance.choice([_value(chance), _nested(chance.choice([40, 300, 900]))])
    return _enveloped(message), {}


def _bad_arguments(chance: random.Random, topic: str, reply_to: str) -> _Made:
    return _enveloped(_call(chance, topic, reply_to)), {}


def _call(chance: random.Random, topic: str, reply_to: str) -> dict[str, Any]:
    namespace = chance.choice(list(METHODS[topic]))
    method = chance.choice(METHODS[topic][namespace])
    arguments = {chance.choice(_NAMES): _value(chance) for _number in range(chance.randint(0, 6))}
    arguments |= {name: _value(chance) for name in _PARAMETERS.get(method, []) if chance.random() < 0.7}
    version = {"scheduler": "4.2", "volume": "1.0", "volume_scheduler": "1.0"}.get(topic, "1.1")
    message = {"method": method, "args": arguments, "namespace": namespace}
    message |= {"version": version, "_unique_id": uuid.UUID(int=chance.getrandbits(128)).hex}
    if chance.random() < 0.7:
        message |= {"_msg_id": uuid.UUID(int=chance.getrandbits(128)).hex, "_reply_q": reply_to}
    return message


def _value(chance: random.Random, depth: int = 0) -> Any:
    if depth < 3 and chance.random() < 0.3:
        inner = [_value(chance, depth + 1) for _number in range(chance.randint(0, 3))]
        return inner if chance.random() < 0.5 else {chance.choice(_NAMES): each for each in inner}
    return chance.choice(
        [None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 1.5, float("nan"), float("inf"), "", "x", "h1", "\x00",
         "a\nb", "\ud800", "é", "%s{}", "'; --", "x" * 300, "9" * 20, str(uuid.UUID(int=chance.getrandbits(128))),
         [], {}, [None], {"": None}, "2026-01-01T00:00:00", "memory_mb", [["a", "b"]], {"memory_mb": -1, "vcpus": 2}]
    )  # fmt: skip


def _nested(depth: int) -> Any:
    value: Any = 1
    for _level in range(depth):
        value = [value]
    return value


def _enveloped(message: dict[str, Any]) -> bytes:
    return json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps(message)}).encode()
