# SPDX-License-Identifier: Apache-2.0
"""Orders to one host."""

from __future__ import annotations

from typing import Any

from oslo_config import cfg

from fleet.context import RequestContext
from fleet.rpc import transport as rpc_transport
from fleet.rpc.clients.api import API, MANDATORY, Message


class ComputeAPI(API):
    """Casts to one host's agent, mandatory: no queue means ``oslo_messaging.MessageUndeliverable`` at once.

    :param transport: of :func:`fleet.rpc.transport.get_host_transport`
    """

    topic = "compute"

    @staticmethod
    def _exchange(conf: cfg.ConfigOpts) -> str | None:
        return rpc_transport.host_exchange(conf)

    def build_and_run_instance(self, context: RequestContext, host: str, **build: Any) -> None:
        """``build``: instance, node, limits, attempt, deadline, claim_within_s, spawn_within_s, alternates,
        filter_properties."""
        newer = {name: build.pop(name) for name in ("spawn_within_s",) if name in build}
        self._order(context, host, Message("build_and_run_instance", build, newer=newer, newer_version="1.1"))

    def terminate_instance(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        self._order(context, host, Message("terminate_instance", {"instance_uuid": instance_uuid}))

    def advance_migration(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        """There is something to do for a move of the instance: the record says what."""
        self._order(context, host, Message("advance_migration", {"instance_uuid": instance_uuid}))

    def describe_host(self, context: RequestContext, host: str) -> dict[str, Any]:
        """What the agent itself holds and runs. :raises oslo_messaging.MessageUndeliverable: nobody serves the host"""
        return self._ask(context, Message("describe_host", {}), server=host, transport_options=MANDATORY)

    def _order(self, context: RequestContext, host: str, message: Message) -> None:
        self._send(context, message, server=host, transport_options=MANDATORY)
