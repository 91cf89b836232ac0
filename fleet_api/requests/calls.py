# SPDX-License-Identifier: Apache-2.0
"""The calls of the ``fleet`` command, by topic and method of the wire contract, and their answers as JSON.

:mod:`fleet_api.requests.conductor` asks the conductor by them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping

import falcon
import oslo_messaging
from oslo_config import cfg

from fleet import errors
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import fields
from fleet.rpc import batch_answers, transport
from fleet.rpc.clients import BaseAPI, ComputeAPI, ComputeTaskAPI, OperatorAPI, SchedulerAPI, VolumeSchedulerAPI

AWAY = "The message broker cannot be reached, so nothing was requested."
#: Names of arguments that a client of this project could not send: they are parameters of the calls themselves.
_TAKEN = ("context", "method", "self")


class Calls:
    def __init__(self, bus: oslo_messaging.RPCTransport, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._bus = bus
        self._operator = OperatorAPI(bus, conf)
        tasks, scheduler = ComputeTaskAPI(bus, conf), SchedulerAPI(bus, conf)
        self._scheduler = scheduler
        volume_scheduler = VolumeSchedulerAPI(bus, conf)
        self._known: Mapping[tuple[str, str], Callable[..., object]] = {
            ("compute_task", "create"): tasks.create,
            ("compute_task", "terminate_instances"): tasks.terminate_instances,
            ("scheduler", "explain"): scheduler.explain,
            ("scheduler", "capacity"): scheduler.capacity,
            ("scheduler", "describe_filters"): scheduler.describe_filters,
            ("volume_scheduler", "explain"): volume_scheduler.explain,
            ("volume_scheduler", "capacity"): volume_scheduler.capacity,
            ("baseapi", "ping"): self.ping,
            ("compute", "describe_host"): self.describe_host,
        }

    def answer(
        self, context: RequestContext, topic: str, method: str, arguments: Mapping[str, object]
    ) -> tuple[JSONObject, int]:
        """Return the answer (see ``fleet.rpc.batch_answers``) and its HTTP status.

        Failures that are no refusals have the form of refusals, with the name of their class in oslo.messaging.
        """
        why = transport.refusal(self._bus)
        if why:
            away = oslo_messaging.MessageDeliveryFailure(f"{AWAY} ({why})")
            return _failure(oslo_messaging.MessageDeliveryFailure, away), 503
        try:
            return batch_answers.result(self._bound(context, topic, method, arguments)()), 200
        except errors.FleetError as refusal:
            return batch_answers.refusal(refusal), refusal.code
        except oslo_messaging.MessagingTimeout as late:
            return _failure(oslo_messaging.MessagingTimeout, late), 504
        except oslo_messaging.MessageDeliveryFailure as nobody:
            return _failure(oslo_messaging.MessageDeliveryFailure, nobody), 503
        except oslo_messaging.RemoteError as broken:
            message = {"error": str(broken.exc_type), "facts": {}, "message": str(broken.value)}
            return message, 404 if broken.exc_type == "NoSuchMethod" else 502

    def _bound(
        self, context: RequestContext, topic: str, method: str, arguments: Mapping[str, object]
    ) -> Callable[[], object]:
        """:raises errors.InvalidInput: falcon.HTTPNotFound:"""
        for name in _TAKEN:
            if name in arguments:
                raise errors.InvalidInput(field=f"arguments.{name}", reason="is not known")
        if topic == "operator":
            return functools.partial(self._operator.call, context, method, **arguments)
        call = self._known.get((topic, method))
        if call is None:
            raise falcon.HTTPNotFound(description=f"There is no call {topic}/{method}.")
        signature = inspect.signature(call, eval_str=True)
        try:
            signature.bind(context, **arguments)
        except TypeError as wrong:
            raise errors.InvalidInput(field="arguments", reason=f"do not fit: {wrong}") from None
        for name, value in arguments.items():
            # The service checks them, but the client looks into them before.
            fields.parse(signature.parameters[name].annotation, value, f"arguments.{name}")
        return functools.partial(call, context, **arguments)

    def ping(self, context: RequestContext, topic: str) -> dict[str, object]:
        return BaseAPI(self._bus, self._conf, topic).ping(context, topic)

    def describe_host(self, context: RequestContext, host: str) -> dict[str, object]:
        return self._hosts.describe_host(context, host)

    def describe_filters(self, context: RequestContext) -> dict[str, object]:
        return self._scheduler.describe_filters(context)

    @functools.cached_property
    def _hosts(self) -> ComputeAPI:
        return ComputeAPI(transport.get_host_transport(self._conf, self._bus), self._conf)


def _failure(kind: type[Exception], failure: Exception) -> dict[str, object]:
    return {"error": kind.__name__, "facts": {}, "message": str(failure)}
