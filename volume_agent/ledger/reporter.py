# SPDX-License-Identifier: Apache-2.0
"""Sends registrations, heartbeats and reports of pools for all backends of an agent.

:mod:`volume_agent.agent` calls it, at start and by its periodic tasks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from oslo_log import log as logging

from fleet import context as fleet_context
from fleet import errors, json_codec
from fleet.agent.patience import UNKNOWN_OUTCOME
from fleet.agent.presence import Presence
from fleet.objects import PoolReport, fields, location
from fleet.rpc.clients import VolumeTaskAPI
from volume_agent.backends.backend import Backend

LOG = logging.getLogger(__name__)
_NAME = "the name of a pool"

BINARY = "fleet-volume"
TOPIC = "volume"


class Reporter:
    """A backend that cannot be used sends no heartbeats, so it is down; it is tried again at each report."""

    def __init__(
        self,
        conductor: VolumeTaskAPI,
        presence: Presence,
        backends: Sequence[Backend],
        superseded: Callable[[str, str], object],
    ) -> None:
        """:param superseded: called with a backend's name, and the reason why this process must not serve it"""
        self._conductor = conductor
        self._presence = presence
        self._backends = {backend.name: backend for backend in backends}
        self._superseded = superseded
        self._copies: dict[str, dict[str, int]] = {}

    def forget(self, name: str) -> None:
        """Send nothing more for this backend."""
        self._backends = {each: backend for each, backend in self._backends.items() if each != name}

    def register(self) -> None:
        """:raises errors.HostTaken:
        :raises patience.Unanswered: only when the agent stops
        """
        self._presence.register(self._backends)

    def leave(self, idle: bool) -> None:
        """Report that the process stops. Its backends count as down at once, before their work has ended."""
        if not idle:
            self._presence.leave(list(self._backends), idle=True)

    def heartbeat(self) -> None:
        usable = [name for name, backend in self._backends.items() if not backend.problem]
        answer = self._presence.heartbeat(usable)
        for name in answer["superseded"] if answer else ():
            self._superseded(name, f"Backend {name} was removed, or another process serves it now.")

    def report(self) -> None:
        """Send the report of each pool. An unchanged report changes nothing in the ledger."""
        found = {name: _report(backend) for name, backend in list(self._backends.items())}
        good = {
            name: reports for name, reports in found.items() if reports is not None and all(map(_has_a_name, reports))
        }
        if not good:
            return
        pools = {name: [each.pool for each in reports] for name, reports in good.items()}
        sent = [each.to_wire() for reports in good.values() for each in reports if _can_be_sent(each)]
        try:
            answer = self._conductor.report_pools(fleet_context.new_context(), sent, pools)
        except UNKNOWN_OUTCOME as silence:
            self._presence.unanswered(silence)
            return
        self._presence.answered()
        for verdict in answer:
            if not verdict["accepted"]:
                LOG.error("The report of %s#%s is refused: %s", verdict["host"], verdict["pool"], verdict["reason"])

    def report_copies(self) -> None:
        """Send how much is copied of the volumes that migrate to these backends, if there is news."""
        copied = {name: backend.copied() for name, backend in list(self._backends.items())}
        found = {name: percents for name, percents in copied.items() if percents}
        if found and found != self._copies and self._conductor.takes_copies():
            # Nothing waits for it: what is lost comes with the next one.
            with contextlib.suppress(*UNKNOWN_OUTCOME):
                self._conductor.report_copies(fleet_context.new_context(), found)
        self._copies = found


def _has_a_name(report: PoolReport) -> bool:
    """Log a pool whose name no message can have, and return False. Its backend is not reported: a pool left out is gone."""
    try:
        location.require_pool(fields.parse(fields.Name, report.pool, _NAME), _NAME)
    except errors.InvalidInput as wrong:
        LOG.error("The pools of %s are not reported: %s", report.host, wrong.message)
        return False
    return True


def _can_be_sent(report: PoolReport) -> bool:
    """Log a report with a value that no message can have, and return False. The pool itself stays known."""
    try:
        json_codec.require(report.to_wire(), "report")
    except errors.InvalidInput as wrong:
        LOG.error("The report of %s#%s is not sent: %s", report.host, report.pool, wrong.message)
        return False
    return True


def _report(backend: Backend) -> list[PoolReport] | None:
    """Return the report of the backend; None if it cannot be used now."""
    try:
        reports = backend.report()
    except Exception as failure:
        problem = f"{type(failure).__name__}: {failure}"
        if problem != backend.problem:
            LOG.error("Backend %s cannot be used, and counts as down: %s", backend.name, problem)
        backend.problem = problem
        return None
    backend.problem = ""
    return reports
