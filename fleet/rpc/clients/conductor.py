# SPDX-License-Identifier: Apache-2.0
"""Calls of agents and schedulers to conductors. Agents call it through :mod:`fleet.agent.patience`."""

from __future__ import annotations

from typing import Any

import oslo_messaging
from oslo_config import cfg

from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.ledger_identity import LedgerIdentity
from fleet.objects.answers.catalog import ImageView
from fleet.rpc.clients.api import API, MANDATORY, Message
from fleet.rpc.pins import Pins

LEAVE_TIMEOUT_S = 3
#: Seconds that a busy conductor may need to answer a heartbeat.
HEARTBEAT_TIMEOUT_S = 2


class ConductorAPI(API):
    """Access to the ledger for agents, and for the scheduler's own service record."""

    topic = "conductor"

    def __init__(
        self,
        transport: oslo_messaging.RPCTransport,
        conf: cfg.ConfigOpts,
        pins: Pins | None = None,
        ledger: LedgerIdentity | None = None,
    ) -> None:
        super().__init__(transport, conf, pins, ledger, for_agents=True)

    def register_services(self, context: RequestContext, services: list[JSONObject]) -> list[JSONObject]:
        """Register daemons. If no conductor has a queue yet, the call times out at once: daemons start in any order."""
        return self._sure_call(context, Message("register_services", {"services": services}))

    def require_free(self, context: RequestContext, services: list[JSONObject]) -> None:
        """:raises errors.HostTaken: another agent serves one of these hosts"""
        self._sure_call(context, Message("require_free", {"services": services}))

    def leave(
        self, context: RequestContext, binary: str, hosts: list[str], incarnation: str, idle: bool = True
    ) -> None:
        """Report that a process stops; it has no time to wait for long.

        An older conductor would mark a process that is not idle as gone, so it gets the report only if ``idle``.

        :param idle: the process ends now
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
    ) -> JSONObject:
        """Send a heartbeat. The call waits at most until the next one is due, so that a dead conductor does not silence
        the daemon.

        The versions of other services in the answer are stored.
        """
        due_s = max(self._conf.report_interval, HEARTBEAT_TIMEOUT_S)
        said = {"binary": binary, "hosts": hosts, "incarnation": incarnation}
        spoken = {"rpc_version": rpc_version, "release": release}
        beat = Message("report_state", said, newer=spoken, newer_version="1.1")
        if self._can_send("1.7"):
            newest = {**spoken, "clock_skew_s": clock_skew_s}
            beat = Message("report_state", said, newer=newest, newer_version="1.7")
        answer: JSONObject = self._ask(context, beat, timeout=min(due_s, self._conf.rpc_response_timeout))
        self._pins.learn(answer.get("versions"))
        return answer

    def report_hosts(
        self,
        context: RequestContext,
        reports: list[JSONObject],
        nodes: dict[str, list[str]],
        alarms: dict[str, str],
    ) -> list[JSONObject]:
        said = {"reports": reports, "nodes": nodes}
        return self._ask(context, Message("report_hosts", said, newer={"alarms": alarms}, newer_version="1.1"))

    def get_host_instances(
        self, context: RequestContext, host: str, uuids: list[str] | None = None
    ) -> list[JSONObject]:
        return self._call(context, "get_host_instances", host=host, uuids=uuids)

    def compare_instances(
        self, context: RequestContext, held: dict[str, list[str]], power: dict[str, dict[str, int]] | None = None
    ) -> dict[str, list[str]]:
        """:param power: power states of the driver, by host and uuid; an older conductor compares without them"""
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
        """Return True if the row has ``power_state`` now. Return False if the conductor is too old for the method."""
        if not self._can_send("1.8"):
            return False
        seen = {"instance_uuid": instance_uuid, "host": host, "power_state": power_state, "expected": expected}
        return self._ask(context, Message("report_guest", {**seen, "failed": failed}, version="1.8"))

    def restart_guest(
        self, context: RequestContext, instance_uuid: str, host: str, power_state: int, limits: JSONObject, moves: bool
    ) -> JSONObject | None:
        """Return the next step for a guest that is down (``fate``, ``count``, ``why``); None if the conductor is too old.

        :param limits: of its restarts
        :param moves: whether its instance moves when they are used up
        """
        if not self._can_send("1.23"):
            return None
        dead = {"instance_uuid": instance_uuid, "host": host, "power_state": power_state}
        asked = Message("restart_guest", {**dead, "limits": limits, "moves": moves}, version="1.23")
        answer: JSONObject = self._ask(context, asked)
        return answer

    def get_image(self, context: RequestContext, image_id: str) -> ImageView:
        """:raises errors.NotFound: errors.VersionPinned: the conductor is too old"""
        return self._ask(context, Message("get_image", {"image_id": image_id}, version="1.12"))

    def get_boot_data(self, context: RequestContext, instance_uuid: str, host: str) -> JSONObject:
        """Return the boot data of an instance. Empty from a conductor that is too old to accept any.

        :raises errors.NotFound: the instance is not on ``host``, nor on its way there
        """
        if not self._can_send("1.13"):
            return {}
        asked = {"instance_uuid": instance_uuid, "host": host}
        return self._ask(context, Message("get_boot_data", asked, version="1.13"))

    def power_done(
        self,
        context: RequestContext,
        instance_uuid: str,
        host: str,
        task_state: str,
        power_state: int,
        failure: str,
        attempt: int,
        deadline: str | None,
    ) -> bool:
        """Report the end of a power task; return True if the row still had it.

        :param failure: "" if it is done
        :param attempt: of the row, as the host has read it; an older conductor does not compare it
        :param deadline: the same
        """
        done = {"instance_uuid": instance_uuid, "host": host, "task_state": task_state, "power_state": power_state}
        newer = {"attempt": attempt, "deadline": deadline}
        message = Message("power_done", {**done, "failure": failure}, "1.12", newer=newer, newer_version="1.18")
        return self._ask(context, message)

    def get_attachments(self, context: RequestContext, instance_uuid: str, host: str) -> list[JSONObject]:
        """Return the attachments of an instance; none if it is not on ``host``."""
        asked = {"instance_uuid": instance_uuid, "host": host}
        return self._ask(context, Message("get_attachments", asked, version="1.14"))

    def attachment_done(
        self, context: RequestContext, attachment_uuid: str, host: str, status: str, attempt: int, failure: str
    ) -> JSONObject | None:
        """Report the end of a step; return the attachment as it is now, None if it is no more.

        :param failure: "" if it is done
        """
        done = {"attachment_uuid": attachment_uuid, "host": host, "status": status, "attempt": attempt}
        return self._ask(context, Message("attachment_done", {**done, "failure": failure}, version="1.14"))

    def claim_instance(
        self,
        context: RequestContext,
        instance_uuid: str,
        attempt: int,
        host: str,
        node: str,
        incarnation: str,
        claim: JSONObject,
        limits: JSONObject | None = None,
    ) -> JSONObject:
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
    ) -> JSONObject:
        said = {"instance_uuid": instance_uuid, "attempt": attempt, "host": host, "power_state": power_state}
        newer = {"incarnation": incarnation}
        return self._ask(context, Message("finish_build", said, newer=newer, newer_version="1.4"))

    def takes_steps(self) -> bool:
        """Return True if :meth:`build_steps` may be used.

        Not while a conductor may be too old, and not with signed messages: a key may be good for one host only.
        """
        return self._signer is None and self._can_send("1.4")

    def build_steps(self, context: RequestContext, steps: list[JSONObject]) -> list[JSONObject]:
        """Call several of :meth:`claim_instance` and :meth:`finish_build` in one message
        (:mod:`fleet.rpc.batch_answers`).

        :param steps: ``method``, its arguments, and the request it belongs to (``RequestContext.whose``)
        """
        return self._ask(context, Message("build_steps", {"steps": steps}, version="1.4"))

    def instance_destroyed(self, context: RequestContext, instance_uuid: str, host: str) -> None:
        self._call(context, "instance_destroyed", instance_uuid=instance_uuid, host=host)
