# SPDX-License-Identifier: Apache-2.0
"""Calls that schedulers of every domain answer about a request: what they would do, and how much more fits.

Called by :mod:`fleet.rpc.clients.scheduler` and :mod:`fleet.rpc.clients.volume_scheduler`.
"""

from __future__ import annotations

import types
from typing import ClassVar

from fleet.context import RequestContext
from fleet.json_codec import JSONMapping, JSONObject
from fleet.rpc.clients.api import API, Message


class DecisionAPI(API):
    """Several schedulers may serve the topic; any of them answers."""

    #: The version that introduced ``explain`` and ``capacity``; empty: the first.
    _since: ClassVar[str] = ""

    def explain(
        self,
        context: RequestContext,
        request_spec: JSONObject,
        filter_properties: JSONObject,
        best: int = 10,
        timeout: float | None = None,
    ) -> JSONObject:
        """Return the decision that the scheduler would make, in the form of ``docs/explain.md``. Nothing is booked.

        :param timeout: in seconds; None: ``rpc_response_timeout``
        """
        asked = {"request_spec": request_spec, "filter_properties": filter_properties, "best": best}
        return self._ask(context, Message("explain", asked, version=self._since), timeout=timeout)

    def capacity(
        self,
        context: RequestContext,
        request_spec: JSONObject,
        filter_properties: JSONObject,
        group_by: str | None = None,
    ) -> JSONObject:
        """Return how many more instances, or volumes, of the request's shape fit.

        :param group_by: ``zone``, or for instances ``aggregate``; None for the total only
        """
        asked = {"request_spec": request_spec, "filter_properties": filter_properties, "group_by": group_by}
        return self._ask(context, Message("capacity", asked, version=self._since))

    def _decide(
        self,
        context: RequestContext,
        method: str,
        request_spec: JSONObject,
        filter_properties: JSONObject,
        version: str = "",
        newer: JSONMapping = types.MappingProxyType({}),
        newer_version: str = "",
    ) -> list[JSONObject]:
        """Call a method that chooses. Its scheduler sends heartbeats while it works, so the call may take long.

        :param newer: arguments in the form of ``newer_version``
        """
        asked = {"request_spec": request_spec, "filter_properties": filter_properties}
        waits = {"timeout": self._conf.long_rpc_timeout, "call_monitor_timeout": self._conf.rpc_response_timeout}
        return self._ask(context, Message(method, asked, version, newer, newer_version), **waits)
