# SPDX-License-Identifier: Apache-2.0
"""What agents and schedulers ask of conductors."""

from __future__ import annotations

from typing import Any

import oslo_messaging
from oslo_config import cfg

from fleet.context import RequestContext
from fleet.ledger_identity import LedgerIdentity
from fleet.rpc.clients.api import API, MANDATORY, Message
from fleet.rpc.pins import Pins

LEAVE_TIMEOUT_S = 3
#: A conductor that lives needs so long to answer a heartbeat when it has much to do.
HEARTBEAT_TIMEOUT_S = 2


class ConductorAPI(API):
    """The ledger, as agents (and the scheduler's own service record) reach it."""

    topic = "conductor"

    def __init__(
        self,
        transport: oslo_messaging.RPCTransport,
        conf: cfg.ConfigOpts,
        pins: Pins | None = None,
        ledger: LedgerIdentity | None = None,
    ) -> None:
        super().__init__(transport, conf, pins, ledger, for_agents=True)

    def register_services(self, context: RequestContext, services: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """A conductor that has no queue yet is a timeout at once: daemons are started together, in any order."""
        return self._sure_call(context, Message("register_services", {"services": services}))

    def require_free(self, context: RequestContext, services: list[dict[str, Any]]) -> None:
        """:raises errors.HostTaken: one of these hosts is another agent's"""
        self._sure_call(context, Message("require_free", {"services": services}))

    def leave(
        self, context: RequestContext, binary: str, hosts: list[str], incarnation: str, idle: bool = True
    ) -> None:
        """Said by a process that stops, which has no time to wait for long. :param idle: whether it ends now

        An older conductor would take it for gone although it is not idle, and is not told before it is.
        """
        if not idle and not self._can_send("1.1"):
            return
        said = {"binary": binary, "hosts": hosts, "incarnation": incarnation}
        message = Message("leave", said, newer={"idle": idle}, newer_version="1.1")
        self._sure_call(context, message, LEAVE_TIMEOUT_S)

    def _sure_call(self, context: RequestContext, message: Message, timeout_s: int | None = None) -> Any:
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
        clock_skew_s: float = 0.0,
    ) -> dict[str, Any]:
        """Waits no longer than until the next one is due: who waits for a dead conductor's answer falls silent itself.

        What is learnt of other services' versions is taken in.
        """
        due_s = max(self._conf.report_interval, HEARTBEAT_TIMEOUT_S)
        said = {"binary": binary, "hosts": hosts, "incarnation": incarnation}
        spoken = {"rpc_version": rpc_version, "release": release}
        beat = Message("report_state", said, newer=spoken, newer_version="1.1")
        if self._can_send("1.7"):
            newest = {**spoken, "clock_skew_s": clock_skew_s}
            beat = Message("report_state", said, newer=newest, newer_version="1.7")
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
        return self._ask(context, Message("report_hosts", said, newer={"alarms": alarms}, newer_version="1.1"))

    def get_host_instances(
        self, context: RequestContext, host: str, uuids: list[str] | None = None
    ) -> list[dict[str, Any]]:
        return self._call(context, "get_host_instances", host=host, uuids=uuids)

    def compare_instances(
        self, context: RequestContext, held: dict[str, list[str]], power: dict[str, dict[str, int]] | None = None
    ) -> dict[str, list[str]]:
        """:param power: by host and uuid, what the driver shows; an older conductor compares without"""
        message = Message("compare_instances", {"held": held}, newer={"power": power or {}}, newer_version="1.8")
        return self._ask(context, message)

    def report_guest(
        self,
        context: RequestContext,
        instance_uuid: str,
        host: str,
        power_state: int,
        expected: int,
        failed: bool = False,
    ) -> bool:
        """Whether the row shows ``power_state`` now; False from a conductor that is too old to be told."""
        if not self._can_send("1.8"):
            return False
        seen = {"instance_uuid": instance_uuid, "host": host, "power_state": power_state, "expected": expected}
        return self._ask(context, Message("report_guest", {**seen, "failed": failed}, version="1.8"))

    def claim_instance(
        self,
        context: RequestContext,
        instance_uuid: str,
        attempt: int,
        host: str,
        node: str,
        incarnation: str,
        claim: dict[str, Any],
        limits: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        said = {
            "instance_uuid": instance_uuid,
            "attempt": attempt,
            "host": host,
            "node": node,
            "incarnation": incarnation,
            "claim": claim,
        }
        newer = {"limits": limits} if limits else {}
        return self._ask(context, Message("claim_instance", said, newer=newer, newer_version="1.3"))

    def finish_build(
        self,
        context: RequestContext,
        instance_uuid: str,
        attempt: int,
        host: str,
        power_state: int,
        incarnation: str,
    ) -> dict[str, Any]:
        said = {"instance_uuid": instance_uuid, "attempt": attempt, "host": host, "power_state": power_state}
        newer = {"incarnation": incarnation}
        return self._ask(context, Message("finish_build", said, newer=newer, newer_version="1.4"))

    def takes_steps(self) -> bool:
        """Whether what several builds want may be asked with :meth:`build_steps`.

        Not while a conductor may be too old, nor where messages are signed: one key may be of one host only.
        """
        return self._signer is None and self._can_send("1.4")

    def build_steps(self, context: RequestContext, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Several of :meth:`claim_instance` and :meth:`finish_build`, each with its answer (:mod:`fleet.rpc.batch_answers`).

        :param steps: ``method``, its arguments, and whose it is (``RequestContext.whose``)
        """
        return self._ask(context, Message("build_steps", {"steps": steps}, version="1.4"))

    def instance_destroyed(self, context: RequestContext, instance_uuid: str, host: str) -> None:
        self._call(context, "instance_destroyed", instance_uuid=instance_uuid, host=host)
