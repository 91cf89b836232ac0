# SPDX-License-Identifier: Apache-2.0
"""Sends nova-scheduler's notifications: before hosts are chosen for a request, and after it is answered.

The endpoint calls it. ``[oslo_messaging_notifications] driver`` and ``[notifications]`` decide whether, and in which form,
as in nova.conf. A request that finds no host has no end, as with nova-scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping

from oslo_config import cfg

from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import structure
from fleet.rpc import deferred
from fleet.rpc.notifier import Silence, get_notifier
from scheduler.compute.drivers.driver import Notifier
from scheduler.nova import notification_payload
from scheduler.nova.notification_options import UNVERSIONED, VERSIONED

_EVENT = "scheduler.select_destinations"


class Notifications:
    """:param older: sends unversioned notifications"""

    def __init__(self, older: Notifier, versioned: Notifier) -> None:
        self._older = older
        self._versioned = versioned
        self._sends = [each for each in (older, versioned) if not isinstance(each, Silence)]

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Notifications:
        wanted, topics = conf.notifications.notification_format, conf.notifications.versioned_notifications_topics
        older = Silence() if wanted == VERSIONED else get_notifier(conf, f"scheduler.{conf.host}", None)
        versioned = Silence() if wanted == UNVERSIONED else get_notifier(conf, f"nova-scheduler:{conf.host}", topics)
        return cls(older, versioned)

    def started(self, context: RequestContext, arguments: Mapping[str, object]) -> None:
        """:param arguments: of ``select_destinations``, as nova has sent them"""
        if self._sends:
            self._send(context, f"{_EVENT}.start", arguments)

    def ended(self, context: RequestContext, arguments: Mapping[str, object]) -> None:
        """Notify after the answer is sent."""
        if self._sends:
            deferred.after_reply(lambda: self._send(context, f"{_EVENT}.end", arguments))

    def _send(self, context: RequestContext, event: str, arguments: Mapping[str, object]) -> None:
        spec = arguments.get("spec_obj")
        if isinstance(spec, Mapping):
            self._older.info(context, event, {"request_spec": notification_payload.older(spec)})
            plain = structure.plain(spec, "spec_obj")
            assert isinstance(plain, Mapping)
            self._versioned.info(context, event, notification_payload.request_spec(plain))
        else:
            payload: JSONObject = {"request_spec": arguments.get("request_spec")}
            self._older.info(context, event, payload)


def silent() -> Notifications:
    """Return notifications that send nothing."""
    return Notifications(Silence(), Silence())
