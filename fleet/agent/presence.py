# SPDX-License-Identifier: Apache-2.0
"""Registers the hosts or storage backends of an agent's process with a conductor, and keeps them alive.

The reporters of both agents call it.
"""

from __future__ import annotations

import datetime
import os
import socket
import time
import types
from collections.abc import Callable, Iterable, Mapping, Sequence

from oslo_log import log as logging

from fleet import context as fleet_context
from fleet.agent.identity import Identity
from fleet.agent.patience import UNKNOWN_OUTCOME, Patience
from fleet.clock import seconds, utcnow
from fleet.clock.skew import ClockSkew
from fleet.json_codec import JSONObject
from fleet.rpc import versions
from fleet.rpc.clients import ConductorAPI

LOG = logging.getLogger(__name__)


class Presence:
    """A conductor that does not answer is one warning, and one line when it answers again."""

    def __init__(
        self,
        conductor: ConductorAPI,
        patience: Patience,
        binary: str,
        topic: str,
        incarnation: str,
        identities: Mapping[str, Identity] = types.MappingProxyType({}),
        registered: Callable[[str], object] = lambda ledger: None,
        skew: ClockSkew | None = None,
    ) -> None:
        """``registered`` is called with the identity of the hosts' ledger; ``skew`` learns from answers."""
        self._conductor = conductor
        self._patience = patience
        self._binary = binary
        self._topic = topic
        self._incarnation = incarnation
        self._identities = identities
        self._registered = registered
        self._skew = skew or ClockSkew(0)
        self._lost = False

    def register(self, hosts: Iterable[str]) -> list[JSONObject]:
        """Register, and repeat until the conductor has answered; return its answer.

        :raises errors.HostTaken:
        :raises patience.Unanswered: only when the agent stops
        """
        services = registrations(self._binary, self._topic, hosts, self._identities, self._incarnation)
        context = fleet_context.new_context()
        answer = self._patience.until_answered(
            "register_services", lambda: self._conductor.register_services(context, services), limit_s=None
        )
        # An older conductor does not send it.
        for ledger in {service["ledger"] for service in answer if service.get("ledger")}:
            self._registered(ledger)
        disabled = [service["host"] for service in answer if service["disabled"]]
        LOG.info("Registered %d hosts, %d of them disabled", len(services), len(disabled))
        return answer

    def leave(self, hosts: Sequence[str], idle: bool) -> None:
        """Report that this process stops. Its hosts get no work, and are down as soon as it is ``idle``, without a
        timeout.
        """
        if not hosts:
            return
        try:
            self._conductor.leave(fleet_context.new_context(), self._binary, list(hosts), self._incarnation, idle)
        except UNKNOWN_OUTCOME as silence:
            LOG.info("Cannot report to the conductor that this agent stops (%s)", type(silence).__name__)

    def heartbeat(self, hosts: Sequence[str]) -> JSONObject | None:
        """Return the answer: ``superseded`` hosts, and ``alarmed`` ones; None if there was none."""
        if not hosts:
            return None
        asked_at = time.monotonic()
        try:
            answer = self._conductor.report_state(
                fleet_context.new_context(),
                self._binary,
                list(hosts),
                self._incarnation,
                **versions.spoken(self._topic),
                clock_skew_s=self._skew.reported_s,
            )
        except UNKNOWN_OUTCOME as silence:
            self.unanswered(silence)
            return None
        self.answered()
        self._compare_clocks(answer.get("now"), (time.monotonic() - asked_at) / 2)
        return answer

    def _compare_clocks(self, theirs: str | None, uncertain_s: float) -> None:
        """:param theirs: the database's time between call and answer; an older conductor does not send it"""
        if theirs is not None:
            now = utcnow() - seconds(uncertain_s)
            self._skew.note((now - datetime.datetime.fromisoformat(theirs)).total_seconds(), uncertain_s)

    def unanswered(self, silence: Exception) -> None:
        """The conductor did not answer a call."""
        if not self._lost:
            LOG.warning("The conductor does not answer (%s); work here goes on", type(silence).__name__)
        self._lost = True

    def answered(self) -> None:
        """The conductor has answered a call."""
        if self._lost:
            LOG.info("The conductor answers again")
        self._lost = False


def registrations(
    binary: str, topic: str, hosts: Iterable[str], identities: Mapping[str, Identity], incarnation: str
) -> list[dict[str, object]]:
    """Return the registrations of ``hosts`` for this process."""
    process = {"incarnation": incarnation, "pid": os.getpid(), "hostname": socket.gethostname()}
    process.update(versions.spoken(topic))
    return [
        {"host": host, "binary": binary, "topic": topic, **_identity(identities.get(host)), **process} for host in hosts
    ]


def _identity(known: Identity | None) -> dict[str, object]:
    return {"identity": None} if known is None else {"identity": known.uuid, "life": known.life}
