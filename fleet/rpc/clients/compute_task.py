# SPDX-License-Identifier: Apache-2.0
"""Calls of users to conductors, and between conductors: builds. Called by :mod:`fleet.rpc.clients`."""

from __future__ import annotations

from oslo_utils import uuidutils

from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import FailedAttempt, network
from fleet.objects.answers.instances import AcceptedRequest
from fleet.rpc import versions
from fleet.rpc.clients.api import API, Message

#: The version that introduced ``client_token``.
TOKENS_SINCE = "1.2"
#: Keys of a request that an older conductor would ignore, and the version that introduced them.
NEWER_KEYS = {
    "wait_for_capacity_s": "1.11",
    "description": "1.13",
    "tags": "1.13",
    "key_name": "1.13",
    "user_data": "1.13",
    "block_device_mapping": "1.15",
    "networks": "1.17",
    **dict.fromkeys(("access_ip_v4", "access_ip_v6", "hostname", "admin_password"), "1.18"),
    "disk_config": "1.19",
    **dict.fromkeys(("requested_host", "requested_node"), "1.26"),
}
#: Values that an older conductor has, too.
_UNSET: tuple[object, ...] = (None, "", 0, [], network.NONE)


class ComputeTaskAPI(API):
    """Starts, advances and ends builds."""

    topic = "conductor"
    namespace = "compute_task"

    def create(self, context: RequestContext, request: JSONObject, client_token: str | None = None) -> AcceptedRequest:
        """Request builds. The message has a token in any case: a driver publishes a message again if it loses the connection
        before the broker confirms, and two conductors may receive it.

        :param client_token: with the same token, the request may be repeated after a timeout; None: a new one
        :raises errors.VersionPinned: a conductor may be too old for tokens, or for a key of the request
        """
        return self._ask_anew(context, lambda: self._creation(request, client_token))

    def _creation(self, request: JSONObject, client_token: str | None) -> Message:
        if request.get("networks") in (network.AUTO, network.NONE) and not self._can_send(NEWER_KEYS["networks"]):
            # That conductor has no networks.
            request = {name: value for name, value in request.items() if name != "networks"}
        said: dict[str, object] = {"request": request}
        newer: dict[str, object] = {}
        since = [version for name, version in NEWER_KEYS.items() if request.get(name, network.NONE) not in _UNSET]
        if client_token is not None:
            said["client_token"] = client_token
            since.append(TOKENS_SINCE)
        elif since:
            said["client_token"] = uuidutils.generate_uuid()
        else:
            newer["client_token"] = uuidutils.generate_uuid()
        version = max(since, key=versions.parse, default="")
        return Message("create", said, version, newer, TOKENS_SINCE)

    def takes_passwords(self) -> bool:
        """Return True if :meth:`create` may have an ``admin_password``."""
        return self._can_send(NEWER_KEYS["admin_password"])

    def build_instances(self, context: RequestContext, instance_uuids: list[str], attempt: int) -> None:
        self._cast(context, "build_instances", instance_uuids=instance_uuids, attempt=attempt)

    def reschedule(self, context: RequestContext, failed: FailedAttempt, alternates: list[JSONObject]) -> bool:
        """Return True if the attempt counts. A conductor of an earlier release does not return it: then False."""
        answer = self._call(context, "reschedule", **failed.to_wire(), alternates=alternates)
        return bool(answer and answer.get("counted"))

    def abort_build(self, context: RequestContext, failed: FailedAttempt) -> None:
        self._call(context, "abort_build", **failed.to_wire())

    def terminate_instances(self, context: RequestContext, instance_uuids: list[str]) -> None:
        self._call(context, "terminate_instances", instance_uuids=instance_uuids)
