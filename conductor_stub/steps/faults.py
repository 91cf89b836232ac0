# SPDX-License-Identifier: Apache-2.0
"""Turns what ended a build into the fault that its owner reads."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

import oslo_messaging

from fleet import errors, states
from fleet.reasons import Reason

#: What an attempt's result (an error's name) says of the reason; any other is the host's own trouble.
_REASON_OF_RESULT = {
    errors.ComputeResourcesUnavailable.__name__: Reason.RACE_LOST,
    errors.GroupAffinityViolation.__name__: Reason.RACE_LOST,
    errors.ServiceDown.__name__: Reason.HOSTS_DOWN,
    "AttemptLost": Reason.HOSTS_DOWN,
}


class BuildTimeout(errors.FleetError):
    """The build did not end in time; the message names the step in which it was last seen."""

    code = 504
    template = "Build did not end within {timeout_s} s: lost in step {step} on {place}."

    def __init__(self, *, timeout_s: str, step: str, place: str) -> None:
        super().__init__(timeout_s=timeout_s, step=step, place=place)
        # Before a claim only messages can have been lost; after it, a host had the build and kept it.
        self.reason_code = Reason.HOSTS_DOWN if step == states.SPAWNING else Reason.MESSAGING


class AttemptLost(errors.FleetError):
    """A host was working on the build and will not be heard of again."""

    reason_code = Reason.HOSTS_DOWN
    template = "{reason}"


def describe(error: Exception) -> tuple[str, int, str, dict[str, Any]]:
    """``(error name, code, message, details)`` of anything that was raised; no traceback, no secret."""
    if isinstance(error, errors.FleetError):
        # A remote error is an instance of a class made by the transport, named after ours.
        name = type(error).__name__.removesuffix("_Remote")
        details = dict(getattr(error, "details", None) or {})
        return name, error.code, error.message, {"reason_code": Reason(error.reason_code).value, **details}
    if isinstance(error, oslo_messaging.MessagingException):
        return type(error).__name__, 503, f"Messaging failed: {type(error).__name__}", _coded(Reason.MESSAGING)
    return type(error).__name__, 500, f"Internal error: {type(error).__name__}", _coded(Reason.INTERNAL)


def _coded(reason: Reason) -> dict[str, Any]:
    return {"reason_code": reason.value}


def attempts(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Every host tried in vain, for the fault's details: rows of ``history.failed_attempts``."""
    return [
        {
            "attempt": row.attempt,
            "host": row.host,
            "node": row.node,
            "step": row.step,
            "result": row.result,
            "reason": row.message,
            "duration_s": row.duration_s,
        }
        for row in rows
    ]


def retries_exceeded(uuid: str, tried: Sequence[dict[str, Any]], remark: str = "") -> errors.MaxRetriesExceeded:
    """:param remark: the end of the sentence"""
    listed = "; ".join(_said(each) for each in tried)
    reason = f"Instance {uuid} was tried {_places(tried)}: {listed}{remark}"
    reasons = collections.Counter(_REASON_OF_RESULT.get(each["result"], Reason.INTERNAL) for each in tried)
    # Of equally frequent reasons the one that was met last: it is what stood in the way in the end.
    why = max(reversed(reasons), key=lambda each: reasons[each], default=Reason.INTERNAL)
    return errors.MaxRetriesExceeded(reason=reason, details={**_coded(why), "attempts": list(tried)})


def _places(tried: Sequence[dict[str, Any]]) -> str:
    """On how many hosts; and how often, and on how many nodes, where that is more."""
    hosts = len({each["host"] for each in tried})
    nodes = len({(each["host"], each.get("node")) for each in tried})
    where = f"on {hosts} {'host' if hosts == 1 else 'hosts'}"
    if nodes > hosts:
        where += f" ({nodes} nodes)"
    return where if len(tried) == nodes else f"{len(tried)} times {where}"


def _said(tried: dict[str, Any]) -> str:
    step = f" in step {tried['step']}" if tried["step"] else ""
    duration = f" after {tried['duration_s']:.1f} s" if tried["duration_s"] is not None else ""
    node = f":{tried['node']}" if tried.get("node") not in (None, tried["host"]) else ""
    return f"attempt {tried['attempt']} on {tried['host']}{node}{step}{duration}: {tried['reason']}"
