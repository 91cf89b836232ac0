# SPDX-License-Identifier: Apache-2.0
"""Turns an error into the fault that the owner of the instance reads. All machines call it where a step has failed."""

from __future__ import annotations

import collections
from collections.abc import Sequence

import oslo_messaging

from conductor_stub.steps.limits import StepContext
from fleet import errors, states
from fleet.db.engine.database import Transaction
from fleet.db.instances import history
from fleet.db.tables.instances import EventRow
from fleet.json_codec import JSONObject
from fleet.reasons import Reason

#: Reason of a failed attempt by its result (the name of an error). Any other result is an internal error of the host.
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
        # Before the claim only a message can have been lost. After it a host has the build and does not end it.
        self.reason_code = Reason.HOSTS_DOWN if step == states.SPAWNING else Reason.MESSAGING


class GuestMayRun(errors.FleetError):
    """A build was given up, and its guest may write to its volumes and answer at its addresses. They are free when the host
    has removed it.

    If the host is off for certain, run 'fleet service force-down HOST'.
    """

    reason_code = Reason.HOSTS_DOWN
    template = "The build has ended, but host {host} may still have its guest, which may write to the volume."


class AttemptLost(errors.FleetError):
    """A host that worked on the build sends no heartbeats any more."""

    reason_code = Reason.HOSTS_DOWN
    template = "{reason}"


def describe(error: Exception) -> tuple[str, int, str, JSONObject]:
    """``(error name, code, message, details)`` of any exception, without traceback and secrets."""
    if isinstance(error, errors.FleetError):
        # The transport raises a remote error as a class of its own, whose name is ours with a suffix.
        name = type(error).__name__.removesuffix("_Remote")
        details = dict(getattr(error, "details", None) or {})
        return name, error.code, error.message, {"reason_code": Reason(error.reason_code).value, **details}
    if isinstance(error, oslo_messaging.MessagingException):
        return type(error).__name__, 503, f"Messaging failed: {type(error).__name__}", _coded(Reason.MESSAGING)
    return type(error).__name__, 500, f"Internal error: {type(error).__name__}", _coded(Reason.INTERNAL)


def write(
    tx: Transaction, uuid: str, error: Exception, host: str | None, ctx: StepContext, **more_details: object
) -> None:
    """Store ``error`` as a fault of the instance."""
    name, code, message, details = describe(error)
    columns = {"error": name, "code": code, "message": message, "details": {**details, **more_details}}
    history.add_fault(tx, uuid, now=ctx.now, host=host, request_id=ctx.request_id, **columns)


def _coded(reason: Reason) -> JSONObject:
    return {"reason_code": reason.value}


def attempts(rows: Sequence[EventRow]) -> list[JSONObject]:
    """Failed attempts for the details of a fault, from rows of ``history.failed_attempts``."""
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


def retries_exceeded(uuid: str, tried: Sequence[JSONObject], remark: str = "") -> errors.MaxRetriesExceeded:
    """:param remark: added at the end of the message"""
    reason = f"Instance {uuid} was tried {_places(tried)}: {_listed(tried)}{remark}"
    return errors.MaxRetriesExceeded(reason=reason, details={**_coded(_why(tried)), "attempts": list(tried)})


def beside(refusal: errors.NoValidHost, tried: Sequence[JSONObject]) -> errors.NoValidHost:
    """The refusal of a build whose hosts were all ``tried`` in vain: the scheduler does not know what became of them."""
    if refusal.reason_code is not Reason.RACE_LOST or not tried:
        return refusal
    reason = f"{refusal.reason} Tried: {_listed(tried)}."
    return type(refusal)(reason=reason, details={**refusal.details, **_coded(_why(tried))})


def _listed(tried: Sequence[JSONObject]) -> str:
    return "; ".join(_said(each) for each in tried)


def _why(tried: Sequence[JSONObject]) -> Reason:
    """The most frequent reason; of equally frequent ones the last."""
    reasons = collections.Counter(_REASON_OF_RESULT.get(each["result"], Reason.INTERNAL) for each in tried)
    return max(reversed(reasons), key=lambda each: reasons[each], default=Reason.INTERNAL)


def _places(tried: Sequence[JSONObject]) -> str:
    """Number of hosts; also of attempts and of nodes, if there were more of them."""
    hosts = len({each["host"] for each in tried})
    nodes = len({(each["host"], each.get("node")) for each in tried})
    where = f"on {hosts} {'host' if hosts == 1 else 'hosts'}"
    if nodes > hosts:
        where += f" ({nodes} nodes)"
    return where if len(tried) == nodes else f"{len(tried)} times {where}"


def _said(tried: JSONObject) -> str:
    step = f" in step {tried['step']}" if tried["step"] else ""
    duration = f" after {tried['duration_s']:.1f} s" if tried["duration_s"] is not None else ""
    node = f":{tried['node']}" if tried.get("node") not in (None, tried["host"]) else ""
    return f"attempt {tried['attempt']} on {tried['host']}{node}{step}{duration}: {tried['reason']}"
