# SPDX-License-Identifier: Apache-2.0
"""The scheduler's RPC surface (``docs/wire-contract.md``): checks what comes in, and logs what was decided."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import oslo_messaging
from oslo_log import log as logging

from fleet import errors
from fleet.context import RequestContext
from fleet.objects import RequestSpec, Selection
from fleet.rpc.server import endpoint, require_size
from scheduler.driver import Scheduler

LOG = logging.getLogger(__name__)
_HOSTS_NAMED = 5


class SchedulerManager:
    """Endpoint of topic ``scheduler``. The fanout casts are hints: whatever they say, the feed knows better."""

    target = oslo_messaging.Target(version="4.2")

    def __init__(self, driver: Scheduler) -> None:
        self._driver = driver

    @endpoint
    def select_destinations(
        self, context: RequestContext, request_spec: Any, filter_properties: Any = None
    ) -> list[dict[str, Any]]:
        """:raises errors.InvalidInput: naming the field; :raises errors.NoValidHost: with the filters' counts"""
        require_size([request_spec, filter_properties], "request_spec")
        request = RequestSpec.from_wire(request_spec, filter_properties)
        started = time.monotonic()
        try:
            selections = self._driver.select_destinations(context, request)
        except errors.NoValidHost as refusal:
            _log_refused(request, refusal, time.monotonic() - started)
            raise
        _log_placed(request, selections, time.monotonic() - started)
        return [selection.to_wire() for selection in selections]

    def update_aggregates(self, context: RequestContext, aggregates: object) -> None:
        self._driver.refresh()

    def delete_aggregate(self, context: RequestContext, aggregate: object) -> None:
        self._driver.refresh()

    def update_instance_info(self, context: RequestContext, host_name: object, instance_info: object) -> None:
        self._driver.refresh()

    def delete_instance_info(self, context: RequestContext, host_name: object, instance_uuid: object) -> None:
        self._driver.refresh()

    def sync_instance_info(self, context: RequestContext, host_name: object, instance_uuids: object) -> None:
        self._driver.refresh()


def _log_placed(request: RequestSpec, selections: Sequence[Selection], took_s: float) -> None:
    hosts = list(dict.fromkeys(selection.host for selection in selections))
    more = f" and {len(hosts) - _HOSTS_NAMED} more" if len(hosts) > _HOSTS_NAMED else ""
    LOG.info(
        "Placed %d instance(s), first %s, on %s%s in %.1f ms (%s)",
        len(selections),
        request.instance.uuid or "-",
        ", ".join(hosts[:_HOSTS_NAMED]),
        more,
        took_s * 1000,
        _counts(selections[0].decision),
    )


def _log_refused(request: RequestSpec, refusal: errors.NoValidHost, took_s: float) -> None:
    LOG.info(
        "No valid host for %d instance(s), first %s: %s %d placed before, in %.1f ms (%s)",
        request.num_instances,
        request.instance.uuid or "-",
        refusal.reason,
        refusal.details.get("placed", 0),
        took_s * 1000,
        _reasons(refusal.details),
    )


def _reasons(record: dict[str, Any]) -> str:
    """The history of a refusal: what each filter was given, and what it left."""
    counts = [f"{each['name']}: (start: {each['start']}, end: {each['end']})" for each in record.get("filters", ())]
    return ", ".join([f"{record.get('considered', 0)} hosts", *counts])


def _counts(record: dict[str, Any]) -> str:
    parts = [f"{record.get('considered', 0)} hosts"]
    parts += [f"{count['name']} {count['end']}" for count in record.get("filters", ())]
    return ", ".join(parts)
