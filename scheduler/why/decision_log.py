# SPDX-License-Identifier: Apache-2.0
"""One log line at INFO for each decision, and its metrics: the outcome, the filters' counts, and the code of a refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oslo_log import log as logging

from fleet import errors
from fleet.objects import RequestSpec, Selection
from fleet.telemetry import metrics

LOG = logging.getLogger(__name__)
_HOSTS_NAMED = 5


def placed(request: RequestSpec, selections: Sequence[Selection], took_s: float) -> None:
    _count("placed", "", took_s, selections[0].decision)
    hosts = list(dict.fromkeys(selection.host for selection in selections))
    more = f" and {len(hosts) - _HOSTS_NAMED} more" if len(hosts) > _HOSTS_NAMED else ""
    record = selections[0].decision
    LOG.info(
        "Placed %d instance(s), first %s, on %s%s in %.1f ms (%s)%s",
        len(selections),
        request.instance.uuid or "-",
        ", ".join(hosts[:_HOSTS_NAMED]),
        more,
        took_s * 1000,
        _counts(record),
        _remarks(record),
    )


def refused(request: RequestSpec, refusal: errors.NoValidHost, took_s: float) -> None:
    _count("refused", refusal.reason_code.value, took_s, refusal.details)
    LOG.info(
        "No valid host for %d instance(s), first %s: %s: %s %d placed before, in %.1f ms (%s)",
        request.num_instances,
        request.instance.uuid or "-",
        refusal.reason_code.value,
        refusal.reason,
        refusal.details.get("placed", 0),
        took_s * 1000,
        _history(refusal.details),
    )


def failed(request: RequestSpec, failure: errors.FleetError, took_s: float) -> None:
    """No decision was made: the request, a plugin or the state of the hosts did not allow one."""
    _count("failed", failure.reason_code.value, took_s, {})
    LOG.info(
        "Could not decide on %d instance(s), first %s: %s: %s (%s) in %.1f ms",
        request.num_instances,
        request.instance.uuid or "-",
        failure.reason_code.value,
        failure.message,
        type(failure).__name__,
        took_s * 1000,
    )


def _count(result: str, reason: str, took_s: float, record: Mapping[str, Any]) -> None:
    metrics.DECISIONS.labels(result, reason).inc()
    metrics.DECISION_SECONDS.observe(took_s)
    for each in record.get("filters", ()):
        if each["start"] > each["end"]:
            metrics.FILTER_REJECTIONS.labels(each["name"]).inc(each["start"] - each["end"])


def _history(record: dict[str, Any]) -> str:
    """Format the number of hosts that each filter was given and let through."""
    counts = [f"{each['name']}: (start: {each['start']}, end: {each['end']})" for each in record.get("filters", ())]
    return ", ".join([f"{record.get('considered', 0)} hosts", *counts])


def _counts(record: dict[str, Any]) -> str:
    parts = [f"{record.get('considered', 0)} hosts"]
    parts += [f"{count['name']} {count['end']}" for count in record.get("filters", ())]
    return ", ".join(parts)


def _remarks(record: dict[str, Any]) -> str:
    """Format the remarks and the staleness of a decision."""
    state = record.get("state") or {}
    said = [f"STALE: by host states that are {state['age_s']:.0f} s old."] if state.get("stale") else []
    return "".join(f" {each}" for each in [*said, *record.get("remarks", ())])
