# SPDX-License-Identifier: Apache-2.0
"""Calls of operators: records, and pings. Called by :mod:`fleet.rpc.clients`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import oslo_messaging
from oslo_config import cfg
from oslo_utils import uuidutils

from fleet.context import RequestContext
from fleet.objects import changes
from fleet.rpc import versions
from fleet.rpc.clients.api import API, MANDATORY, Message
from fleet.rpc.trust.repeated_changes import WITH_TOKEN

#: The version that introduced a method, if it is not the first.
NEWER = (
    dict.fromkeys(
        (
            "show_flavor",
            "update_flavor",
            "delete_flavor",
            "show_aggregate",
            "rename_aggregate",
            "delete_aggregate",
            "show_group",
            "update_group",
            "delete_group",
            "delete_service",
            "delete_host",
            "migrate_instance",
        ),
        "1.5",
    )
    | dict.fromkeys(
        (
            *("create_volumes", "list_volumes", "show_volume", "extend_volume", "delete_volume", "list_pools"),
            *("create_volume_type", "update_volume_type", "delete_volume_type", "list_volume_types"),
        ),
        "1.9",
    )
    | dict.fromkeys(("list_images", "create_image", "show_image", "delete_image", "newest_faults"), "1.10")
    | dict.fromkeys(
        ("list_snapshots", "create_snapshot", "show_snapshot", "delete_snapshot", "migrate_volume", "retype_volume"),
        "1.11",
    )
    | {"list_queue": "1.11"}
    | dict.fromkeys(("stop_instance", "start_instance", "reboot_instance", "get_console_output"), "1.12")
    | dict.fromkeys(
        ("list_events", "update_instance", "list_key_pairs", "create_key_pair", "show_key_pair", "delete_key_pair"),
        "1.13",
    )
    | dict.fromkeys(("list_quotas", "show_quota", "set_quota", "delete_quota"), "1.13")
    | dict.fromkeys(("suspend_instance", "resume_instance"), "1.14")
    | dict.fromkeys(("manage_volume", "unmanage_volume", "list_manageable"), "1.13")
    | dict.fromkeys(("attach_volume", "detach_volume", "list_attachments"), "1.14")
    | dict.fromkeys(("update_volume", "use_over_time"), "1.14")
    | {
        "host_table": "1.15",
        "list_acts": "1.17",
        "requests_of": "1.17",
        "set_host_labels": "1.18",
        "live_obstacles": "1.19",
    }
    | dict.fromkeys(("list_networks", "show_network", "create_network", "delete_network"), "1.17")
    | dict.fromkeys(("live_migrate_instance", "abort_live_migration"), "1.15")
    | dict.fromkeys(("search_instances", "search_volumes"), "1.17")
    | dict.fromkeys(
        (
            "lock_instance",
            "unlock_instance",
            "reset_state",
            "rebuild_instance",
            "shelve_instance",
            "unshelve_instance",
            "shelve_offload_instance",
        ),
        "1.18",
    )
    | dict.fromkeys(
        (
            *("list_volume_type_access", "add_volume_type_access", "remove_volume_type_access"),
            *("create_maintenance", "list_maintenances", "show_maintenance", "pause_maintenance"),
            *("cancel_maintenance", "skip_maintenance_host"),
        ),
        "1.19",
    )
    | dict.fromkeys(("list_recoveries", "show_recovery", "pause_recovery", "start_recovery"), "1.19")
    | dict.fromkeys(("list_tolerances", "set_tolerance", "unset_tolerance"), "1.19")
    | {"list_decisions": "1.20", **dict.fromkeys(("list_zones", "list_host_states"), "1.25")}
    | dict.fromkeys(("list_balances", "list_balance_rounds", "suggest_balance", "run_balance", "pause_balance"), "1.21")
)
#: The version that introduced ``client_token``. Messages of the methods that have it (WITH_TOKEN) always get one: a driver
#: publishes a message again if it loses the connection before the broker confirms, and two conductors may receive it.
TOKENS_SINCE = "1.12"
#: Arguments without which a call would mean something else, and the version that introduced them.
NEEDED_ARGUMENTS = {
    "list_instances": {"marker": "1.10", "newest_first": "1.11", "sort": "1.25"},
    "migrate_instance": {"host": "1.11"},
    "evacuate_instance": {"host": "1.11"},
    "create_volumes": {"client_token": TOKENS_SINCE},
    "list_volumes": {"limit": "1.25", "marker": "1.25"},
    "list_snapshots": {"limit": "1.25", "marker": "1.25"},
    "list_migrations": {"limit": "1.25", "marker": "1.25"},
    "list_hosts": {"limit": "1.25", "marker": "1.25"},
    "list_services": {"limit": "1.25", "marker": "1.25"},
    "host_table": {"limit": "1.25", "marker": "1.25"},
    "list_groups": {"project_id": "1.13"},
    "create_group": {"rules": "1.18"},
    "update_group": {"rules": "1.18"},
    "update_volume_type": {"is_public": "1.19"},
    "delete_volume": {"with_snapshots": "1.19"},
    "list_events": {"last": "1.17", "host": "1.17", "uuid": "1.17"},
}
#: Arguments that make an answer smaller, or a plan better, and the version that introduced them. They are left out where it
#: cannot be sent: the caller then gets more than it reads, some moves of its plan are refused later, less is shown, or a
#: deletion waits for the agent of its backend.
SPARING_ARGUMENTS = {
    "list_instances": {"brief": "1.16"},
    "requests_of": {"live": "1.22"},
    "create_maintenance": {"left_out": "1.24"},
    "delete_volume": {"force": "1.25"},
}
#: Keys of a request for volumes without which it would mean something else.
_ORIGINS = ("snapshot", "image")
#: Arguments that version 1.5 introduced; an older conductor does not get them.
NEWER_ARGUMENTS = {"list_instances": ("limit",)}


class OperatorAPI(API):
    """All that the ``fleet`` command shows and changes. The wire contract lists methods and arguments."""

    topic = "conductor"
    namespace = "operator"
    #: Method → the version of the topic's API that introduced it.
    _newer: ClassVar[Mapping[str, str]] = NEWER

    def call(self, context: RequestContext, method: str, **kwargs: Any) -> Any:
        return self._ask_anew(context, lambda: self._message(method, **kwargs))

    def _message(self, method: str, **kwargs: Any) -> Message:
        if method in WITH_TOKEN and kwargs.get("client_token") is None and self._can_send(TOKENS_SINCE):
            kwargs["client_token"] = uuidutils.generate_uuid()
        newer = {name: kwargs.pop(name) for name in NEWER_ARGUMENTS.get(method, ()) if name in kwargs}
        needed = [since for name, since in NEEDED_ARGUMENTS.get(method, {}).items() if name in kwargs]
        for name, since in SPARING_ARGUMENTS.get(method, {}).items():
            if name in kwargs and not self._can_send(since):
                del kwargs[name]
            elif name in kwargs:
                needed.append(since)
        version = self._newer.get(method, "")
        if method == "create_volumes" and any(_mapping(kwargs, "request").get(name) for name in _ORIGINS):
            needed.append("1.11")
        if method == "create_volume_type" and _mapping(kwargs, "volume_type").get("is_public") is False:
            # An older conductor would make it public.
            needed.append("1.19")
        if method == "update_instance":
            needed += [changes.NEWER[name] for name in _mapping(kwargs, "changes") if name in changes.NEWER]
        if needed:
            kwargs, newer, version = {**kwargs, **newer}, {}, max(needed, key=versions.parse)
        return Message(method, kwargs, version=version, newer=newer, newer_version="1.5")


def _mapping(arguments: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an argument; an empty mapping if it is none. The conductor refuses it by name."""
    found = arguments.get(name)
    return found if isinstance(found, Mapping) else {}


class NovaOperatorAPI(OperatorAPI):
    """The methods of the namespace that a scheduler for nova serves."""

    topic = "scheduler"
    METHODS = ("request_of", "request_for", "list_hosts", "list_decisions")
    _newer: ClassVar[Mapping[str, str]] = {"list_decisions": "4.9"}


class BaseAPI(API):
    """Pings a topic. Its version is the same on all topics and is never pinned."""

    namespace = "baseapi"

    def __init__(self, transport: oslo_messaging.RPCTransport, conf: cfg.ConfigOpts, topic: str) -> None:
        self.topic = topic
        super().__init__(transport, conf)

    def ping(self, context: RequestContext, arg: object) -> dict[str, object]:
        """:raises oslo_messaging.MessageUndeliverable: the topic has no queue"""
        return self._client.prepare(version="1.1", transport_options=MANDATORY).call(context, "ping", arg=arg)
