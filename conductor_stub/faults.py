# SPDX-License-Identifier: Apache-2.0
"""Turns what ended a build into the fault that its owner reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oslo_messaging

from fleet import errors

MESSAGING = "MESSAGING"
INTERNAL = "INTERNAL"


class BuildTimeout(errors.FleetError):
    """The build did not end in time; the message names the step in which it was last seen."""

    code = 504
    template = "Build did not end within {timeout_s} s: lost in step {step} on {place}."


class AttemptLost(errors.FleetError):
    """A host was working on the build and will not be heard of again."""

    template = "{reason}"


def describe(error: Exception) -> tuple[str, int, str, dict[str, Any]]:
    """``(error name, code, message, details)`` of anything that was raised; no traceback, no secret."""
    if isinstance(error, errors.FleetError):
        # A remote error is an instance of a class made by the transport, named after ours.
        name = type(error).__name__.removesuffix("_Remote")
        return name, error.code, error.message, dict(getattr(error, "details", None) or {})
    if isinstance(error, oslo_messaging.MessagingException):
        return type(error).__name__, 503, f"Messaging failed: {type(error).__name__}", {"reason_code": MESSAGING}
    return type(error).__name__, 500, f"Internal error: {type(error).__name__}", {"reason_code": INTERNAL}


def attempts(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Every host tried in vain, for the fault's details: rows of ``history.failed_attempts``."""
    return [
        {
            "attempt": row.attempt,
            "host": row.host,
            "node": row.node,
            "result": row.result,
            "reason": row.message,
            "duration_s": row.duration_s,
        }
        for row in rows
    ]


def retries_exceeded(uuid: str, tried: Sequence[dict[str, Any]]) -> errors.MaxRetriesExceeded:
    listed = "; ".join(f"attempt {each['attempt']} on {each['host']}: {each['reason']}" for each in tried)
    reason = f"Instance {uuid} was tried on {len(tried)} hosts: {listed}"
    return errors.MaxRetriesExceeded(reason=reason, details={"attempts": list(tried)})
