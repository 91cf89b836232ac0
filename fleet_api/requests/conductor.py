# SPDX-License-Identifier: Apache-2.0
"""The calls of conductor and scheduler for the resources: each carries the context of the HTTP request.

:mod:`fleet_api.main` makes one, and every resource receives it.
"""

from __future__ import annotations

import functools

import falcon
import oslo_messaging
from oslo_config import cfg

from fleet import errors
from fleet.context import RequestContext
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import Flavor, ImageRecord
from fleet.objects.answers.instances import AcceptedRequest
from fleet.rpc import transport
from fleet.rpc.clients import ComputeTaskAPI, OperatorAPI, OperatorCalls, SchedulerAPI
from fleet_api.requests.calls import AWAY, Calls
from fleet_api.requests.faults import Fault


class Conductor:
    """Its methods raise what the conductor raises: ``errors.FleetError`` of any kind, or a failure of the transport."""

    def __init__(self, bus: oslo_messaging.RPCTransport, conf: cfg.ConfigOpts) -> None:
        self._bus = bus
        self._operator = OperatorAPI(bus, conf)
        self._tasks = ComputeTaskAPI(bus, conf)
        self._scheduler = SchedulerAPI(bus, conf)
        self.calls = Calls(bus, conf)

    def operator(self, request: falcon.Request) -> OperatorCalls:
        """The calls of the namespace ``operator``, made for the caller of the HTTP request."""
        return OperatorCalls(functools.partial(self.ask, request))

    def ask(self, request: falcon.Request, method: str, /, **arguments: object) -> object:
        """Call a method of the namespace ``operator``. :meth:`operator` has a method for each, with types."""
        return self._operator.call(self._caller(request), method, **arguments)

    def create(self, request: falcon.Request, wanted: JSONObject, token: str | None) -> AcceptedRequest:
        """Request a build. :param token: makes the request safe to repeat"""
        return self._tasks.create(self._caller(request), wanted, token)

    def takes_passwords(self) -> bool:
        """Return False while a conductor may be too old for the password of a guest."""
        return self._tasks.takes_passwords()

    def terminate(self, request: falcon.Request, uuid: str) -> None:
        self._tasks.terminate_instances(self._caller(request), [uuid])

    def explain(self, request: falcon.Request, wanted: JSONObject, best: int) -> JSONObject:
        """Return where a request would be placed and why; nothing is booked.

        :param wanted: as for :meth:`create`
        """
        asked = self.operator(request).request_for(wanted)
        return self._scheduler.explain(self._caller(request), **asked, best=best)

    def capacity(self, request: falcon.Request, wanted: JSONObject, group_by: str | None) -> JSONObject:
        """Return how many more instances fit. :param wanted: as for :meth:`create`"""
        asked = self.operator(request).request_for(wanted)
        return self._scheduler.capacity(self._caller(request), **asked, group_by=group_by)

    def flavors(self, request: falcon.Request) -> list[Flavor]:
        return [Flavor.from_wire(each) for each in self.offers(request)]

    def flavor(self, request: falcon.Request, flavor_id: str) -> Flavor:
        """By id only: clients look for a name in the list. :raises errors.NotFound:"""
        return Flavor.from_wire(self.offer(request, flavor_id))

    def offers(self, request: falcon.Request) -> list[JSONMapping]:
        """The flavors as the catalog has them: with ``is_public`` and ``description``."""
        return [dict(each) for each in self.operator(request).list_flavors()]

    def offer(self, request: falcon.Request, flavor_id: str) -> JSONMapping:
        """By id only: clients look for a name in the list. :raises errors.NotFound:"""
        found = self.operator(request).show_flavor(name=flavor_id)
        if found["flavorid"] != flavor_id:
            raise errors.NotFound(kind="Flavor", name=flavor_id)
        return dict(found)

    def images(self, request: falcon.Request) -> list[ImageRecord]:
        return [ImageRecord.from_wire(each) for each in self.operator(request).list_images()]

    def image(self, request: falcon.Request, uuid: str) -> ImageRecord:
        """Find an image by uuid only. :raises errors.NotFound:"""
        found = ImageRecord.from_wire(self.operator(request).show_image(name=uuid))
        if found.uuid != uuid:
            raise errors.NotFound(kind="Image", name=uuid)
        return found

    def _caller(self, request: falcon.Request) -> RequestContext:
        """:raises Fault: the broker is known to be away: a call would wait until its time is over"""
        refusal = transport.refusal(self._bus)
        if refusal:
            raise Fault(503, f"{AWAY} ({refusal})")
        found: RequestContext = request.context.caller
        return found
