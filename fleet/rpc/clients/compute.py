# SPDX-License-Identifier: Apache-2.0
"""Sends orders to the agent of one host. The conductor's machines call it after each commit that concerns a host."""

from __future__ import annotations

import dataclasses
from typing import Any

from oslo_config import cfg

from fleet import states
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.rpc import transport as rpc_transport
from fleet.rpc.clients.api import API, MANDATORY, Message

_ADVANCE_POWER = Message("advance_power", {}, version="1.2")
_ADVANCE_ATTACHMENTS = Message("advance_attachments", {}, version="1.3")
_ABORT = Message("live_migration_abort", {}, version="1.4")
#: Older agents would start guests without their volumes.
_VOLUMES_SINCE = "1.4"
#: Older agents would start guests without their networks.
_NETWORKS_SINCE = "1.5"
#: Older agents would start guests from their images, in place of the disks that were kept.
_SHELVES_SINCE = "1.6"
#: Tasks that older agents ignore.
_NEWER_TASKS = {
    states.SUSPENDING: "1.3",
    states.RESUMING: "1.3",
    **dict.fromkeys((states.REBUILD_DISK, states.SHELVING, states.UNSHELVING, states.SHELVING_OFFLOADING), "1.6"),
}


class HostAPI(API):
    """Casts with the mandatory flag: without a queue, ``oslo_messaging.MessageUndeliverable`` is raised at once.

    :param transport: from :func:`fleet.rpc.transport.get_host_transport`
    """

    @staticmethod
    def _exchange(conf: cfg.ConfigOpts) -> str | None:
        return rpc_transport.host_exchange(conf)

    def _order(self, context: RequestContext, host: str, message: Message) -> None:
        self._send(context, message, server=host, transport_options=MANDATORY)


class ComputeAPI(HostAPI):
    """Orders to the agent of a host."""

    topic = "compute"

    def build_and_run_instance(self, context: RequestContext, host: str, **build: Any) -> None:
        """``build`` has instance, node, limits, attempt, deadline, claim_within_s, spawn_within_s, alternates,
        filter_properties, and volumes if the instance has any.

        :raises errors.VersionPinned: an agent may be too old for volumes, or for networks
        """
        since = _NETWORKS_SINCE if build["instance"].get("interfaces") else _VOLUMES_SINCE
        if build["instance"].get("shelved_attempt") is not None:
            since = _SHELVES_SINCE
        if build.get("volumes") or since != _VOLUMES_SINCE:
            self._order(context, host, Message("build_and_run_instance", build, version=since))
            return
        newer = {name: build.pop(name) for name in ("spawn_within_s",) if name in build}
        self._order(context, host, Message("build_and_run_instance", build, newer=newer, newer_version="1.1"))

    def require_volumes(self) -> None:
        """:raises errors.VersionPinned: an agent may start a guest without the volumes that it is built or moved with"""
        self._in_version(Message("build_and_run_instance", {}, version=_VOLUMES_SINCE))

    def require_networks(self) -> None:
        """:raises errors.VersionPinned: an agent may start a guest without the networks that it is built or moved with"""
        self._in_version(Message("build_and_run_instance", {}, version=_NETWORKS_SINCE))

    def require_unshelving(self) -> None:
        """:raises errors.VersionPinned: an agent may start a guest from its image, in place of the disk that was kept"""
        self._in_version(Message("build_and_run_instance", {}, version=_SHELVES_SINCE))

    def terminate_instance(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        self._order(context, host, Message("terminate_instance", {"instance_uuid": instance_uuid}))

    def advance_migration(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        """Tell the host to read the migration record of the instance, which has work for it."""
        self._order(context, host, Message("advance_migration", {"instance_uuid": instance_uuid}))

    def require_live_migration(self) -> None:
        """:raises errors.VersionPinned: an agent may be too old for live migrations"""
        self._in_version(_ABORT)

    def live_migration_abort(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        """Tell the source to read the migration record of the instance: its live migration is to be aborted."""
        self._order(context, host, dataclasses.replace(_ABORT, arguments={"instance_uuid": instance_uuid}))

    def require_power(self, task: str) -> None:
        """:raises errors.VersionPinned: an agent may be too old for :meth:`advance_power` with this task"""
        since = _NEWER_TASKS.get(task, _ADVANCE_POWER.version)
        self._in_version(dataclasses.replace(_ADVANCE_POWER, version=since))

    def advance_power(
        self,
        context: RequestContext,
        host: str,
        instance_uuid: str,
        task: str = "",
        spawn_within_s: float | None = None,
    ) -> None:
        """Tell the host to read the row of the instance, whose task is one of ``states.POWER_TASKS``.

        :param task: that of the row
        :param spawn_within_s: how long the host may make a guest, if that is the task
        """
        arguments: dict[str, object] = {"instance_uuid": instance_uuid}
        version = _NEWER_TASKS.get(task, _ADVANCE_POWER.version)
        if task in states.DISK_TASKS:
            arguments["spawn_within_s"] = spawn_within_s
        self._order(context, host, dataclasses.replace(_ADVANCE_POWER, arguments=arguments, version=version))

    def require_attachments(self) -> None:
        """:raises errors.VersionPinned: an agent may be too old for :meth:`advance_attachments`"""
        self._in_version(_ADVANCE_ATTACHMENTS)

    def advance_attachments(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        """Tell the host to read the attachments of the instance: its guest is to get volumes, or to give them back."""
        self._order(
            context, host, dataclasses.replace(_ADVANCE_ATTACHMENTS, arguments={"instance_uuid": instance_uuid})
        )

    def get_console_output(self, context: RequestContext, host: str, instance_uuid: str) -> str:
        """:raises oslo_messaging.MessageUndeliverable: no agent serves the host; errors.VersionPinned: it is too old"""
        message = Message("get_console_output", {"instance_uuid": instance_uuid}, version="1.2")
        return self._ask(context, message, server=host, transport_options=MANDATORY)

    def describe_host(self, context: RequestContext, host: str) -> JSONObject:
        """Return the claims of the agent, and its running guests.

        :raises oslo_messaging.MessageUndeliverable: no agent serves the host
        """
        return self._ask(context, Message("describe_host", {}), server=host, transport_options=MANDATORY)
