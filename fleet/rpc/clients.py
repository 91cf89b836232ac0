# SPDX-License-Identifier: Apache-2.0
"""One class per topic and namespace of ``docs/wire-contract.md``: the only callers of another service."""

from __future__ import annotations

from typing import Any

import oslo_messaging
from oslo_config import cfg

from fleet.context import RequestContext
from fleet.rpc import serializer
from fleet.rpc import transport as rpc_transport
from fleet.telemetry import metrics

#: Fail at once when no queue takes the message (a host whose agent is gone).
MANDATORY = oslo_messaging.TransportOptions(at_least_once=True)
LEAVE_TIMEOUT_S = 3
#: A conductor that lives needs so long to answer a heartbeat when it has much to do.
HEARTBEAT_TIMEOUT_S = 2


class _API:
    topic = ""
    namespace: str | None = None
    version = "1.0"

    def __init__(self, transport: oslo_messaging.RPCTransport, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        target = oslo_messaging.Target(
            exchange=self._exchange(conf), topic=self.topic, namespace=self.namespace, version=self.version
        )
        self._client = oslo_messaging.get_rpc_client(transport, target, serializer=serializer.ContextSerializer())

    @staticmethod
    def _exchange(conf: cfg.ConfigOpts) -> str | None:
        """None is ``control_exchange``."""
        return None

    def _call(self, context: RequestContext, method: str, **kwargs: Any) -> Any:
        return _counted(self._client, context, method, **kwargs)

    def _cast(self, context: RequestContext, method: str, **kwargs: Any) -> None:
        self._client.cast(context, method, **kwargs)


def _counted(client: Any, context: RequestContext, method: str, **kwargs: Any) -> Any:
    """A call, counted if it is not answered in time."""
    try:
        return client.call(context, method, **kwargs)
    except oslo_messaging.MessagingTimeout:
        metrics.RPC_TIMEOUTS.labels(method).inc()
        raise


class SchedulerAPI(_API):
    """Asks for placement. Several schedulers may serve the topic; any of them answers."""

    topic = "scheduler"
    version = "4.0"

    def select_destinations(
        self, context: RequestContext, request_spec: dict[str, Any], filter_properties: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """:raises errors.NoValidHost: and oslo_messaging.MessagingTimeout, whose outcome is unknown"""
        long_call = self._client.prepare(
            timeout=self._conf.long_rpc_timeout, call_monitor_timeout=self._conf.rpc_response_timeout
        )
        return _counted(
            long_call,
            context,
            "select_destinations",
            request_spec=request_spec,
            filter_properties=filter_properties,
        )

    def explain(
        self, context: RequestContext, request_spec: dict[str, Any], filter_properties: dict[str, Any], best: int = 10
    ) -> dict[str, Any]:
        """What ``select_destinations`` would do and why; nothing is booked. The answer: ``docs/explain.md``."""
        return self._client.prepare(version="4.2").call(
            context, "explain", request_spec=request_spec, filter_properties=filter_properties, best=best
        )

    def capacity(
        self,
        context: RequestContext,
        request_spec: dict[str, Any],
        filter_properties: dict[str, Any],
        group_by: str | None = None,
    ) -> dict[str, Any]:
        """How many more instances of the request's flavor would fit; ``group_by``: ``zone``, ``aggregate`` or None."""
        return self._client.prepare(version="4.2").call(
            context, "capacity", request_spec=request_spec, filter_properties=filter_properties, group_by=group_by
        )

    def update_aggregates(self, context: RequestContext, aggregates: list[dict[str, Any]]) -> None:
        self._client.prepare(fanout=True, version="4.1").cast(context, "update_aggregates", aggregates=aggregates)

    def delete_aggregate(self, context: RequestContext, aggregate: dict[str, Any]) -> None:
        self._client.prepare(fanout=True, version="4.1").cast(context, "delete_aggregate", aggregate=aggregate)

    # Hints, said by who has a build to go on with: never tried again.

    def update_instance_info(
        self, context: RequestContext, host_name: str, instance_info: list[dict[str, Any]]
    ) -> None:
        everyone = self._client.prepare(fanout=True, version="4.1", retry=0)
        everyone.cast(context, "update_instance_info", host_name=host_name, instance_info=instance_info)

    def delete_instance_info(self, context: RequestContext, host_name: str, instance_uuid: str) -> None:
        everyone = self._client.prepare(fanout=True, version="4.1", retry=0)
        everyone.cast(context, "delete_instance_info", host_name=host_name, instance_uuid=instance_uuid)

    def sync_instance_info(self, context: RequestContext, host_name: str, instance_uuids: list[str]) -> None:
        everyone = self._client.prepare(fanout=True, version="4.1", retry=0)
        everyone.cast(context, "sync_instance_info", host_name=host_name, instance_uuids=instance_uuids)


class ConductorAPI(_API):
    """The ledger, as agents (and the scheduler's own service record) reach it."""

    topic = "conductor"

    def register_services(self, context: RequestContext, services: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """A conductor that has no queue yet is a timeout at once: daemons are started together, in any order."""
        return self._sure_call(context, "register_services", services=services)

    def require_free(self, context: RequestContext, services: list[dict[str, Any]]) -> None:
        """:raises errors.HostTaken: one of these hosts is another agent's"""
        self._sure_call(context, "require_free", services=services)

    def leave(
        self, context: RequestContext, binary: str, hosts: list[str], incarnation: str, idle: bool = True
    ) -> None:
        """Said by a process that stops, which has no time to wait for long. :param idle: whether it ends now"""
        said = {"binary": binary, "hosts": hosts, "incarnation": incarnation, "idle": idle}
        self._sure_call(context, "leave", LEAVE_TIMEOUT_S, **said)

    def _sure_call(self, context: RequestContext, method: str, timeout_s: int | None = None, **arguments: Any) -> Any:
        sure = self._client.prepare(transport_options=MANDATORY, timeout=timeout_s or self._conf.rpc_response_timeout)
        try:
            return sure.call(context, method, **arguments)
        except oslo_messaging.MessageUndeliverable:
            raise oslo_messaging.MessagingTimeout("No conductor has a queue") from None

    def report_state(
        self, context: RequestContext, binary: str, hosts: list[str], incarnation: str
    ) -> dict[str, list[str]]:
        """Waits no longer than until the next one is due: who waits for a dead conductor's answer falls silent itself."""
        due_s = max(self._conf.report_interval, HEARTBEAT_TIMEOUT_S)
        prompt = self._client.prepare(timeout=min(due_s, self._conf.rpc_response_timeout))
        return _counted(prompt, context, "report_state", binary=binary, hosts=hosts, incarnation=incarnation)

    def report_hosts(
        self,
        context: RequestContext,
        reports: list[dict[str, Any]],
        nodes: dict[str, list[str]],
        alarms: dict[str, str],
    ) -> list[dict[str, Any]]:
        return self._call(context, "report_hosts", reports=reports, nodes=nodes, alarms=alarms)

    def get_host_instances(
        self, context: RequestContext, host: str, uuids: list[str] | None = None
    ) -> list[dict[str, Any]]:
        return self._call(context, "get_host_instances", host=host, uuids=uuids)

    def compare_instances(self, context: RequestContext, held: dict[str, list[str]]) -> dict[str, list[str]]:
        return self._call(context, "compare_instances", held=held)

    def claim_instance(
        self,
        context: RequestContext,
        instance_uuid: str,
        attempt: int,
        host: str,
        node: str,
        incarnation: str,
        claim: dict[str, Any],
    ) -> dict[str, Any]:
        return self._call(
            context,
            "claim_instance",
            instance_uuid=instance_uuid,
            attempt=attempt,
            host=host,
            node=node,
            incarnation=incarnation,
            claim=claim,
        )

    def finish_build(
        self, context: RequestContext, instance_uuid: str, attempt: int, host: str, power_state: int
    ) -> dict[str, Any]:
        return self._call(
            context,
            "finish_build",
            instance_uuid=instance_uuid,
            attempt=attempt,
            host=host,
            power_state=power_state,
        )

    def instance_destroyed(self, context: RequestContext, instance_uuid: str, host: str) -> None:
        self._call(context, "instance_destroyed", instance_uuid=instance_uuid, host=host)


class ComputeTaskAPI(_API):
    """Starts, moves on and ends builds."""

    topic = "conductor"
    namespace = "compute_task"

    def create(self, context: RequestContext, request: dict[str, Any]) -> dict[str, Any]:
        return self._call(context, "create", request=request)

    def build_instances(self, context: RequestContext, instance_uuids: list[str], attempt: int) -> None:
        self._cast(context, "build_instances", instance_uuids=instance_uuids, attempt=attempt)

    def reschedule(
        self,
        context: RequestContext,
        instance_uuid: str,
        attempt: int,
        host: str,
        node: str,
        failure: dict[str, Any],
        alternates: list[dict[str, Any]],
    ) -> None:
        self._call(
            context,
            "reschedule",
            instance_uuid=instance_uuid,
            attempt=attempt,
            host=host,
            node=node,
            failure=failure,
            alternates=alternates,
        )

    def abort_build(
        self, context: RequestContext, instance_uuid: str, attempt: int, host: str, node: str, failure: dict[str, Any]
    ) -> None:
        self._call(
            context,
            "abort_build",
            instance_uuid=instance_uuid,
            attempt=attempt,
            host=host,
            node=node,
            failure=failure,
        )

    def terminate_instances(self, context: RequestContext, instance_uuids: list[str]) -> None:
        self._call(context, "terminate_instances", instance_uuids=instance_uuids)


class MigrationAPI(_API):
    """Moves, as conductors and agents tell each other of them."""

    topic = "conductor"
    namespace = "migration"

    def place_migration(self, context: RequestContext, migration_uuid: str, attempt: int) -> None:
        self._cast(context, "place_migration", migration_uuid=migration_uuid, attempt=attempt)

    def get_host_migrations(
        self, context: RequestContext, host: str, instance_uuids: list[str] | None = None
    ) -> list[dict[str, Any]]:
        return self._call(context, "get_host_migrations", host=host, instance_uuids=instance_uuids)

    def claim_migration(
        self,
        context: RequestContext,
        migration_uuid: str,
        attempt: int,
        host: str,
        node: str,
        incarnation: str,
        claim: dict[str, Any],
    ) -> dict[str, Any]:
        return self._call(
            context,
            "claim_migration",
            migration_uuid=migration_uuid,
            attempt=attempt,
            host=host,
            node=node,
            incarnation=incarnation,
            claim=claim,
        )

    def migration_done(
        self, context: RequestContext, migration_uuid: str, attempt: int, host: str, status: str
    ) -> dict[str, Any]:
        arguments = {"migration_uuid": migration_uuid, "attempt": attempt, "host": host, "status": status}
        return self._call(context, "migration_done", **arguments)

    def migration_failed(
        self,
        context: RequestContext,
        migration_uuid: str,
        attempt: int,
        host: str,
        status: str,
        failure: dict[str, Any],
    ) -> dict[str, Any]:
        arguments = {"migration_uuid": migration_uuid, "attempt": attempt, "host": host, "status": status}
        return self._call(context, "migration_failed", failure=failure, **arguments)


class OperatorAPI(_API):
    """Everything that the ``fleet`` command shows and sets; see the contract for methods and arguments."""

    topic = "conductor"
    namespace = "operator"

    def call(self, context: RequestContext, method: str, **kwargs: Any) -> Any:
        return self._call(context, method, **kwargs)


class BaseAPI(_API):
    """Whether anybody serves a topic."""

    namespace = "baseapi"
    version = "1.1"

    def __init__(self, transport: oslo_messaging.RPCTransport, conf: cfg.ConfigOpts, topic: str) -> None:
        self.topic = topic
        super().__init__(transport, conf)

    def ping(self, context: RequestContext, arg: object) -> dict[str, Any]:
        return self._call(context, "ping", arg=arg)


class ComputeAPI(_API):
    """Casts to one host's agent, mandatory: no queue means ``oslo_messaging.MessageUndeliverable`` at once.

    :param transport: of :func:`fleet.rpc.transport.get_host_transport`
    """

    topic = "compute"

    @staticmethod
    def _exchange(conf: cfg.ConfigOpts) -> str | None:
        return rpc_transport.host_exchange(conf)

    def build_and_run_instance(self, context: RequestContext, host: str, **build: Any) -> None:
        """``build``: instance, node, limits, attempt, deadline, claim_within_s, alternates, filter_properties."""
        self._to(host).cast(context, "build_and_run_instance", **build)

    def terminate_instance(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        self._to(host).cast(context, "terminate_instance", instance_uuid=instance_uuid)

    def advance_migration(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        """There is something to do for a move of the instance: the record says what."""
        self._to(host).cast(context, "advance_migration", instance_uuid=instance_uuid)

    def describe_host(self, context: RequestContext, host: str) -> dict[str, Any]:
        """What the agent itself holds and runs. :raises oslo_messaging.MessageUndeliverable: nobody serves the host"""
        return self._to(host).call(context, "describe_host")

    def _to(self, host: str) -> Any:
        return self._client.prepare(server=host, transport_options=MANDATORY)
