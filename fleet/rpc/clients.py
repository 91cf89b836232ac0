# SPDX-License-Identifier: Apache-2.0
"""One class per topic and namespace of ``docs/wire-contract.md``: the only callers of another service."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import oslo_messaging
from oslo_config import cfg

from fleet import errors
from fleet.clock import Clock, seconds, utcnow
from fleet.context import RequestContext
from fleet.rpc import serializer, signing, versions
from fleet.rpc import transport as rpc_transport
from fleet.rpc.pins import Pins
from fleet.telemetry import metrics

#: Fail at once when no queue takes the message (a host whose agent is gone).
MANDATORY = oslo_messaging.TransportOptions(at_least_once=True)
LEAVE_TIMEOUT_S = 3
#: A conductor that lives needs so long to answer a heartbeat when it has much to do.
HEARTBEAT_TIMEOUT_S = 2
#: What a server of oslo.messaging answers to a message that is newer than it is; it has done nothing then.
_UNSUPPORTED = "UnsupportedVersion"


class _API:
    """``pins`` says how new a message may be; a message is sent in the version that brought what it needs."""

    topic = ""
    namespace: str | None = None
    _signer: signing.Signer | None = None

    def __init__(self, transport: oslo_messaging.RPCTransport, conf: cfg.ConfigOpts, pins: Pins | None = None) -> None:
        self._conf = conf
        self._pins = pins or Pins(conf)
        keys = signing.keys_of(conf)
        self._signer = signing.Signer(keys) if keys else None
        target = oslo_messaging.Target(exchange=self._exchange(conf), topic=self.topic, namespace=self.namespace)
        self._client = oslo_messaging.get_rpc_client(transport, target, serializer=serializer.ContextSerializer())

    @staticmethod
    def _exchange(conf: cfg.ConfigOpts) -> str | None:
        """None is ``control_exchange``."""
        return None

    def _call(self, context: RequestContext, method: str, **kwargs: Any) -> Any:
        return self._ask(context, _Message(method, kwargs))

    def _cast(self, context: RequestContext, method: str, **kwargs: Any) -> None:
        self._send(context, _Message(method, kwargs))

    def _ask(self, context: RequestContext, message: _Message, **options: Any) -> Any:
        """A call, counted if it is not answered in time; asked again in an older version if it is refused for its own.

        :param options: of the client's ``prepare``
        :raises errors.VersionPinned: it cannot be said in a version that may be sent
        """
        while True:
            version, arguments = self._in_version(message)
            try:
                return self._prepared(version, options).call(
                    self._signed(context, message.method, version, arguments, options), message.method, **arguments
                )
            except oslo_messaging.MessagingTimeout:
                metrics.RPC_TIMEOUTS.labels(message.method).inc()
                raise
            except oslo_messaging.RemoteError as failed:
                if failed.exc_type != _UNSUPPORTED:
                    raise
                refusal = failed
            # Not while it is handled: oslo.log would show it with its traceback.
            if not self._pins.refused(self.topic, message.method, version):
                raise refusal

    def _send(self, context: RequestContext, message: _Message, **options: Any) -> None:
        """A cast. :raises errors.VersionPinned:"""
        version, arguments = self._in_version(message)
        signed = self._signed(context, message.method, version, arguments, options)
        self._prepared(version, options).cast(signed, message.method, **arguments)

    def _signed(
        self, context: RequestContext, method: str, version: str, arguments: dict[str, Any], options: dict[str, Any]
    ) -> Any:
        if self._signer is None:
            return context
        server = options.get("server")
        to = f"{self.topic}.{server}" if server else self.topic
        letter = signing.Letter(to, self.namespace, version, method, arguments)
        return self._signer.seal(context, letter, host=server)

    def _prepared(self, version: str, options: dict[str, Any]) -> Any:
        return self._client.prepare(version=version, version_cap=self._pins.cap(self.topic), **options)

    def _in_version(self, message: _Message) -> tuple[str, dict[str, Any]]:
        """The version in which ``message`` is sent, and its arguments: without those that are too new."""
        needed = message.version or versions.OLDEST[self.topic]
        if not self._can_send(needed):
            cap, pin = self._pins.cap(self.topic), self._pins.pin(self.topic)
            raise errors.VersionPinned(topic=self.topic, method=message.method, needs=needed, cap=cap, pin=pin)
        if message.newer and self._can_send(message.newer_version):
            return message.newer_version, {**message.arguments, **message.newer}
        return needed, dict(message.arguments)

    def _can_send(self, version: str) -> bool:
        return self._client.prepare(version_cap=self._pins.cap(self.topic)).can_send_version(version)


@dataclasses.dataclass(frozen=True)
class _Message:
    """``version``: the one that brought the method, if it was not there from the first; ``newer``: the arguments that
    ``newer_version`` has brought, left out where it cannot be sent."""

    method: str
    arguments: Mapping[str, Any]
    version: str = ""
    newer: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    newer_version: str = ""


class SchedulerAPI(_API):
    """Asks for placement. Several schedulers may serve the topic; any of them answers."""

    topic = "scheduler"
    clock: Clock = staticmethod(utcnow)

    def select_destinations(
        self, context: RequestContext, request_spec: dict[str, Any], filter_properties: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """:raises errors.NoValidHost: and oslo_messaging.MessagingTimeout, whose outcome is unknown"""
        # Somebody who has begun says so every now and then, and is waited for; a message that waits in a queue is not.
        begin_by = self.clock() + seconds(self._conf.rpc_response_timeout)
        spec = {**request_spec, "begin_by": f"{begin_by.isoformat()}Z"}
        asked = {"request_spec": spec, "filter_properties": filter_properties}
        waits = {"timeout": self._conf.long_rpc_timeout, "call_monitor_timeout": self._conf.rpc_response_timeout}
        return self._ask(context, _Message("select_destinations", asked), **waits)

    def explain(
        self, context: RequestContext, request_spec: dict[str, Any], filter_properties: dict[str, Any], best: int = 10
    ) -> dict[str, Any]:
        """What ``select_destinations`` would do and why; nothing is booked. The answer: ``docs/explain.md``."""
        asked = {"request_spec": request_spec, "filter_properties": filter_properties, "best": best}
        return self._ask(context, _Message("explain", asked, version="4.2"))

    def capacity(
        self,
        context: RequestContext,
        request_spec: dict[str, Any],
        filter_properties: dict[str, Any],
        group_by: str | None = None,
    ) -> dict[str, Any]:
        """How many more instances of the request's flavor would fit; ``group_by``: ``zone``, ``aggregate`` or None."""
        asked = {"request_spec": request_spec, "filter_properties": filter_properties, "group_by": group_by}
        return self._ask(context, _Message("capacity", asked, version="4.2"))

    # Hints to all schedulers. One of an older release goes by the change feed alone.

    def update_aggregates(self, context: RequestContext, aggregates: list[dict[str, Any]]) -> None:
        self._tell(context, "update_aggregates", {"aggregates": aggregates})

    def delete_aggregate(self, context: RequestContext, aggregate: dict[str, Any]) -> None:
        self._tell(context, "delete_aggregate", {"aggregate": aggregate})

    # Said by who has a build to go on with: never tried again.

    def update_instance_info(
        self, context: RequestContext, host_name: str, instance_info: list[dict[str, Any]]
    ) -> None:
        said = {"host_name": host_name, "instance_info": instance_info}
        self._tell(context, "update_instance_info", said, retry=0)

    def delete_instance_info(self, context: RequestContext, host_name: str, instance_uuid: str) -> None:
        said = {"host_name": host_name, "instance_uuid": instance_uuid}
        self._tell(context, "delete_instance_info", said, retry=0)

    def sync_instance_info(self, context: RequestContext, host_name: str, instance_uuids: list[str]) -> None:
        said = {"host_name": host_name, "instance_uuids": instance_uuids}
        self._tell(context, "sync_instance_info", said, retry=0)

    def _tell(self, context: RequestContext, method: str, said: dict[str, Any], **options: Any) -> None:
        if self._can_send("4.1"):
            self._send(context, _Message(method, said, version="4.1"), fanout=True, **options)


class ConductorAPI(_API):
    """The ledger, as agents (and the scheduler's own service record) reach it."""

    topic = "conductor"

    def register_services(self, context: RequestContext, services: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """A conductor that has no queue yet is a timeout at once: daemons are started together, in any order."""
        return self._sure_call(context, _Message("register_services", {"services": services}))

    def require_free(self, context: RequestContext, services: list[dict[str, Any]]) -> None:
        """:raises errors.HostTaken: one of these hosts is another agent's"""
        self._sure_call(context, _Message("require_free", {"services": services}))

    def leave(
        self, context: RequestContext, binary: str, hosts: list[str], incarnation: str, idle: bool = True
    ) -> None:
        """Said by a process that stops, which has no time to wait for long. :param idle: whether it ends now

        An older conductor would take it for gone although it is not idle, and is not told before it is.
        """
        if not idle and not self._can_send("1.1"):
            return
        said = {"binary": binary, "hosts": hosts, "incarnation": incarnation}
        message = _Message("leave", said, newer={"idle": idle}, newer_version="1.1")
        self._sure_call(context, message, LEAVE_TIMEOUT_S)

    def _sure_call(self, context: RequestContext, message: _Message, timeout_s: int | None = None) -> Any:
        try:
            timeout_s = timeout_s or self._conf.rpc_response_timeout
            return self._ask(context, message, transport_options=MANDATORY, timeout=timeout_s)
        except oslo_messaging.MessageUndeliverable:
            raise oslo_messaging.MessagingTimeout("No conductor has a queue") from None

    def report_state(
        self,
        context: RequestContext,
        binary: str,
        hosts: list[str],
        incarnation: str,
        rpc_version: str | None = None,
        release: str | None = None,
    ) -> dict[str, Any]:
        """Waits no longer than until the next one is due: who waits for a dead conductor's answer falls silent itself.

        What is learnt of other services' versions is taken in.
        """
        due_s = max(self._conf.report_interval, HEARTBEAT_TIMEOUT_S)
        said = {"binary": binary, "hosts": hosts, "incarnation": incarnation}
        spoken = {"rpc_version": rpc_version, "release": release}
        beat = _Message("report_state", said, newer=spoken, newer_version="1.1")
        answer = self._ask(context, beat, timeout=min(due_s, self._conf.rpc_response_timeout))
        self._pins.learn(answer.get("versions"))
        return answer

    def report_hosts(
        self,
        context: RequestContext,
        reports: list[dict[str, Any]],
        nodes: dict[str, list[str]],
        alarms: dict[str, str],
    ) -> list[dict[str, Any]]:
        said = {"reports": reports, "nodes": nodes}
        return self._ask(context, _Message("report_hosts", said, newer={"alarms": alarms}, newer_version="1.1"))

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

    def create(
        self, context: RequestContext, request: dict[str, Any], client_token: str | None = None
    ) -> dict[str, Any]:
        """:param client_token: with it, the request may be repeated when no answer comes

        :raises errors.VersionPinned: there may be a conductor that knows of no tokens
        """
        if client_token is None:
            return self._call(context, "create", request=request)
        said = {"request": request, "client_token": client_token}
        return self._ask(context, _Message("create", said, version="1.2"))

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
    """Whether anybody serves a topic. Its version is the same in all of them, and no pin's matter."""

    namespace = "baseapi"

    def __init__(self, transport: oslo_messaging.RPCTransport, conf: cfg.ConfigOpts, topic: str) -> None:
        self.topic = topic
        super().__init__(transport, conf)

    def ping(self, context: RequestContext, arg: object) -> dict[str, Any]:
        return self._client.prepare(version="1.1").call(context, "ping", arg=arg)


class ComputeAPI(_API):
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
        self._order(context, host, _Message("build_and_run_instance", build, newer=newer, newer_version="1.1"))

    def terminate_instance(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        self._order(context, host, _Message("terminate_instance", {"instance_uuid": instance_uuid}))

    def advance_migration(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        """There is something to do for a move of the instance: the record says what."""
        self._order(context, host, _Message("advance_migration", {"instance_uuid": instance_uuid}))

    def describe_host(self, context: RequestContext, host: str) -> dict[str, Any]:
        """What the agent itself holds and runs. :raises oslo_messaging.MessageUndeliverable: nobody serves the host"""
        return self._ask(context, _Message("describe_host", {}), server=host, transport_options=MANDATORY)

    def _order(self, context: RequestContext, host: str, message: _Message) -> None:
        self._send(context, message, server=host, transport_options=MANDATORY)
