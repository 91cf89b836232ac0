# SPDX-License-Identifier: Apache-2.0
"""Errors of a scheduler: it chose no host, or not enough of them. Called by :mod:`fleet.errors`."""

from collections.abc import Mapping
from typing import Any, ClassVar

from fleet.errors.base import FleetError
from fleet.reasons import Reason


class NoValidHost(FleetError):
    """No host can take the request.

    ``reason`` is a sentence; ``details`` is the decision record (see ``docs/explain.md``): how many hosts were
    considered, how many each filter kept, the dominant ``reason_code`` and the nearest misses. What to do depends on the
    code (:class:`fleet.reasons.Reason`).
    """

    reason_code = Reason.CAPACITY
    template = "No valid host was found. {reason}"
    reason: str

    def __init__(self, *, reason: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(reason=reason, details=details or {})
        self.details: dict[str, Any] = details or {}
        self.reason_code = Reason(self.details.get("reason_code") or type(self).reason_code)


class MaxRetriesExceeded(NoValidHost):
    """All attempts that ``scheduler_max_attempts`` allows have failed. The instance's events list each of them."""

    reason_code = Reason.RACE_LOST
    template = "Exceeded maximum number of retries. {reason}"


class PluginFailed(FleetError):
    """A filter or weigher raised an exception, or returned a value that is not allowed.

    ``plugin`` is its class, ``problem`` is what happened, and where in its code. Correct the plugin, remove it from the
    configuration, or set ``scheduler_filter_error_policy`` to skip.
    """

    reason_code = Reason.MISCONFIGURED
    template = "{kind} {plugin} failed: {problem}"
    hidden: ClassVar[Mapping[str, object]] = {"problem": "an administrator sees where and why"}
    kind: str
    plugin: str
    problem: str


class MetricNotFound(FleetError):
    """A host does not report a required metric. Enable MetricsFilter, or let the host report the metric."""

    code = 404
    reason_code = Reason.MISCONFIGURED
    template = "Metric {name} could not be found on the compute host node {host}.{node}."


class StaleState(FleetError):
    """The scheduler cannot read the database, and its host states are older than ``scheduler_max_state_age``."""

    code = 503
    reason_code = Reason.STALE_STATE
    template = "The scheduler cannot read the state of the hosts ({problem}), and its copy of the state is {age}."


class RequestExpired(FleetError):
    """A scheduler received a request ``late_s`` seconds after its caller had stopped waiting. No host was chosen.

    The caller repeats the request. If every request expires, compare the clocks of conductors and schedulers.
    """

    code = 504
    reason_code = Reason.MESSAGING
    template = "The scheduler received the request {late_s} s after its caller had stopped waiting."
    late_s: str
