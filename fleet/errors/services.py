# SPDX-License-Identifier: Apache-2.0
"""Errors between services: which process serves a host, which messages are accepted, and in which version.

Called by :mod:`fleet.errors`.
"""

from collections.abc import Mapping
from typing import ClassVar

from fleet.errors.base import FleetError
from fleet.reasons import Reason


class ServiceDown(FleetError):
    """The host's agent has no queue on the broker or no recent heartbeat."""

    code = 503
    reason_code = Reason.HOSTS_DOWN
    template = "Service {binary} on host {host} is down: {reason}"
    hidden: ClassVar[Mapping[str, object]] = {"host": "(hidden)", "reason": "an administrator sees why"}


class StaleIncarnation(FleetError):
    """Another process has registered this host. The caller must stop serving it."""

    code = 409
    template = "Host {host} is served by another process now (started {started_at} as pid {pid} on {hostname})."
    host: str


class HostTaken(FleetError):
    """Another live agent serves this host. Stop it first, or give this agent another name (option ``host``)."""

    code = 409
    reason_code = Reason.MISCONFIGURED
    template = (
        "Host {host} is served by another agent: pid {pid} on {hostname}, identity {identity}, since {started_at}. "
        "Two agents must not share a host."
    )
    host: str


class ReportRefused(FleetError):
    """A host's inventory is missing, negative or not a number. The previous one is kept. Correct the driver."""

    code = 400
    reason_code = Reason.MISCONFIGURED
    template = "Inventory of {host}:{node} refused: {field} {reason}"


class VersionPinned(FleetError):
    """A method needs version ``needs`` of ``topic``'s API, and ``cap`` is the newest version that may be sent.

    Upgrade the services of that topic. If ``pin`` is a version, remove it from ``[upgrade_levels]`` afterwards.
    """

    code = 503
    reason_code = Reason.MISCONFIGURED
    template = "{method} needs version {needs} of the {topic}'s API; [upgrade_levels] {topic} = {pin} allows {cap}."
    topic: str
    method: str
    needs: str
    cap: str
    pin: str


class ForeignLedger(FleetError):
    """A message came from a process that uses another database. It was not processed; another receiver may accept it.

    Give each fleet a broker or a virtual host of its own; another ``control_exchange`` is not enough. If a database was
    replaced on purpose, see ``fleet-manage ledger``.
    """

    code = 409
    reason_code = Reason.MISCONFIGURED
    template = "Ledger {theirs} is foreign here: this {service} works for ledger {ours}."
    theirs: str
    ours: str
    service: str


class ForeignExchange(ForeignLedger):
    """A message without a ledger came through another exchange than the receiver's. It was not processed.

    Two fleets share a virtual host: give each one of its own. Or the sender's ``control_exchange`` is an earlier one of the
    same fleet: correct it.
    """

    template = (
        "Exchange {theirs} is foreign here: this {service} serves exchange {ours}. "
        "Give each fleet a virtual host of its own."
    )


class ClockSkewed(FleetError):
    """The daemon's clock differs from the database's by more than ``max_clock_skew``, so it refused the work.

    Run a time service on its machine. Another daemon may do the work.
    """

    code = 503
    reason_code = Reason.MISCONFIGURED
    template = "{problem} The daemon takes no evacuation until it is in step."
    problem: str


class NotTrusted(FleetError):
    """A message's signature is missing, wrong or too old, or its key does not allow the message.

    Compare ``[message_signing]`` on both sides, and the clocks. If both are right, the message may be an attack.
    """

    code = 403
    reason_code = Reason.MISCONFIGURED
    template = "The message is not trusted: {reason}."
    reason: str
