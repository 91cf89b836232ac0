# SPDX-License-Identifier: Apache-2.0
"""Calls to schedulers for placement, and hints about changes that the change feed does not have yet.

Conductors call it.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet.clock import Clock, seconds, utcnow
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects.answers.decisions import KeptDecision
from fleet.objects.answers.hosts import AggregateChange, AggregateView
from fleet.objects.answers.instances import SchedulingRequestOf
from fleet.rpc import versions
from fleet.rpc.clients.api import Message
from fleet.rpc.clients.decision import DecisionAPI

#: Seconds. The answer is at hand, and callers go on without it.
DESCRIBE_TIMEOUT_S = 5
#: Seconds. It reads the whole fleet, and callers go on without it.
PLAN_TIMEOUT_S = 30

#: The version that knows the node of a requested destination.
_NODES_SINCE = "4.11"


class SchedulerAPI(DecisionAPI):
    topic = "scheduler"
    _since = "4.2"
    clock: Clock = staticmethod(utcnow)

    def select_destinations(
        self, context: RequestContext, request_spec: JSONObject, filter_properties: JSONObject
    ) -> list[JSONObject]:
        """
        :param filter_properties: may have ``within_hosts``, the hosts that ``ignore_hosts`` leaves; one of the two
            lists is sent
        :raises errors.NoValidHost:
        :raises errors.VersionPinned: a scheduler may be too old for a requested destination, or for rules of a group
        :raises oslo_messaging.MessagingTimeout: the outcome is unknown
        """
        # A scheduler that has begun sends heartbeats, and the caller waits for it. A message that stays in a queue
        # expires.
        begin_by = self.clock() + seconds(self._conf.rpc_response_timeout)
        spec = {**request_spec, "begin_by": f"{begin_by.isoformat()}Z"}
        # An older scheduler would ignore the destination, its node, or the rules.
        destination = filter_properties.get("requested_destination") or {}
        version = "4.5" if destination else ""
        version = "4.7" if filter_properties.get("group_rules") else version
        version = _NODES_SINCE if destination.get("node") else version
        older, shorter = (
            {name: value for name, value in filter_properties.items() if name != left}
            for left in ("within_hosts", "ignore_hosts")
        )
        newer = {"filter_properties": shorter} if "within_hosts" in shorter else {}
        newest = max("4.10", version or "4.10", key=versions.parse)
        return self._decide(context, "select_destinations", spec, older, version, newer, newest)

    def require_requested_node(self) -> None:
        """:raises errors.VersionPinned: a scheduler may place a guest on another node of the requested host"""
        self._in_version(Message("select_destinations", {}, version=_NODES_SINCE))

    def describe_filters(self, context: RequestContext) -> JSONObject:
        """Return ``filters``, ``judged`` and ``left_out``: see ``docs/wire-contract.md``.

        :raises errors.VersionPinned: a scheduler may be too old
        """
        return self._ask(context, Message("describe_filters", {}, version="4.6"), timeout=DESCRIBE_TIMEOUT_S)

    def plan_loss(
        self, context: RequestContext, hosts: list[str], requests: Sequence[SchedulingRequestOf]
    ) -> JSONObject:
        """Return ``verdict``, ``why`` and ``plan``: see ``docs/wire-contract.md``.

        :raises errors.VersionPinned: a scheduler may be too old; errors.NotSupported: it does not plan
        """
        message = Message("plan_loss", {"hosts": hosts, "requests": list(requests)}, version="4.8")
        return self._ask(context, message, timeout=PLAN_TIMEOUT_S)

    def decisions_of(self, context: RequestContext, request_id: str, host: str) -> list[KeptDecision]:
        """Return the decisions of a request that the schedulers of one machine have kept.

        :param host: name of the machine
        :raises errors.VersionPinned: a scheduler may be too old; errors.ConfigError: it keeps no decisions
        """
        message = Message("decisions_of", {"request_id": request_id}, version="4.9")
        return self._ask(context, message, server=host, timeout=DESCRIBE_TIMEOUT_S)

    # Hints to all schedulers. A scheduler of an older release uses the change feed only.

    def update_aggregates(self, context: RequestContext, aggregates: list[AggregateChange]) -> None:
        self._tell(context, "update_aggregates", {"aggregates": aggregates})

    def delete_aggregate(self, context: RequestContext, aggregate: AggregateView) -> None:
        self._tell(context, "delete_aggregate", {"aggregate": aggregate})

    # Sent while a build goes on, so never retried.

    def update_instance_info(self, context: RequestContext, instance_info: list[JSONObject]) -> None:
        """:param instance_info: each with its ``host``. Those of several hosts are sent in one message if schedulers are
        new enough and messages are not signed: a key may be good for one host only
        """
        if self._signer is None and self._can_send("4.3"):
            self._tell(context, "update_instance_info", {"instance_info": instance_info}, version="4.3", retry=0)
            return
        for host, infos in _by_host(instance_info).items():
            said = {"host_name": host, "instance_info": infos}
            self._tell(context, "update_instance_info", said, retry=0)

    def delete_instance_info(self, context: RequestContext, host_name: str, instance_uuid: str) -> None:
        said = {"host_name": host_name, "instance_uuid": instance_uuid}
        self._tell(context, "delete_instance_info", said, retry=0)

    def sync_instance_info(self, context: RequestContext, host_name: str, instance_uuids: list[str]) -> None:
        said = {"host_name": host_name, "instance_uuids": instance_uuids}
        self._tell(context, "sync_instance_info", said, retry=0)

    def note_bookings(self, context: RequestContext, sender: str, bookings: list[JSONObject]) -> None:
        """Sent by a scheduler to all others.

        :param bookings: each with ``instance_uuid``, ``host``, ``nodename``, ``amounts``, ``came_from``,
            ``instance_type_id`` and ``project_id``
        """
        self._tell(context, "note_bookings", {"sender": sender, "bookings": bookings}, version="4.4", retry=0)

    def _tell(
        self, context: RequestContext, method: str, said: JSONObject, version: str = "4.1", **options: object
    ) -> None:
        if self._can_send(version):
            self._send(context, Message(method, said, version=version), fanout=True, **options)


def _by_host(infos: list[JSONObject]) -> dict[str, list[JSONObject]]:
    found: dict[str, list[dict[str, object]]] = {}
    for info in infos:
        found.setdefault(info["host"], []).append(info)
    return found
