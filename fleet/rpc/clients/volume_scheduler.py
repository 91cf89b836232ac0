# SPDX-License-Identifier: Apache-2.0
"""Calls to schedulers for the placement of volumes."""

from __future__ import annotations

from typing import Any

from fleet.context import RequestContext
from fleet.rpc.clients.api import API, Message


class VolumeSchedulerAPI(API):
    """Several schedulers may serve the topic; any of them answers."""

    topic = "volume_scheduler"

    def select_backend(
        self, context: RequestContext, request_spec: dict[str, Any], filter_properties: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Return one element as ``select_destinations`` does: ``host`` is ``machine@backend``, ``nodename`` the pool.

        :raises errors.NoValidHost:
        :raises oslo_messaging.MessagingTimeout: the outcome is unknown
        """
        asked = {"request_spec": request_spec, "filter_properties": filter_properties}
        waits = {"timeout": self._conf.long_rpc_timeout, "call_monitor_timeout": self._conf.rpc_response_timeout}
        return self._ask(context, Message("select_backend", asked), **waits)

    def explain(
        self, context: RequestContext, request_spec: dict[str, Any], filter_properties: dict[str, Any], best: int = 10
    ) -> dict[str, Any]:
        """Return what ``select_backend`` would do and why; nothing is booked. The answer is described in
        ``docs/explain.md``.
        """
        asked = {"request_spec": request_spec, "filter_properties": filter_properties, "best": best}
        return self._ask(context, Message("explain", asked))

    def capacity(
        self,
        context: RequestContext,
        request_spec: dict[str, Any],
        filter_properties: dict[str, Any],
        group_by: str | None = None,
    ) -> dict[str, Any]:
        """Return how many more volumes of the request's size and type fit. ``group_by`` is ``zone`` or None."""
        asked = {"request_spec": request_spec, "filter_properties": filter_properties, "group_by": group_by}
        return self._ask(context, Message("capacity", asked))
