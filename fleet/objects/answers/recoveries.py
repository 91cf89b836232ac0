# SPDX-License-Identifier: Apache-2.0
"""Recoveries of hosts that are down (``fleet.recovery_states``).

Called by :mod:`fleet.rpc.clients.operator.hosts`. Times are ISO 8601 text in UTC.
"""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict


class _Recovery(TypedDict):
    uuid: str
    host: str
    status: str
    paused: bool
    asked: bool
    attempt: int
    problem: str | None
    silent_since: str | None
    fenced_at: str | None
    created_at: str
    ended_at: str | None


class RecoveryView(_Recovery):
    """A recovery. ``guests``: how many by status, in a list; ``asked``: an operator has started it."""

    guests: NotRequired[dict[str, int]]


class RecoveryDomainView(TypedDict):
    """A failure domain: the number of its hosts, and of those that are silent. The whole fleet has the name ""."""

    name: str
    hosts: int
    silent: int
    stopped: bool


class RecoveriesView(TypedDict):
    """A list of recoveries. ``paused``: all are."""

    recoveries: list[RecoveryView]
    domains: list[RecoveryDomainView]
    paused: bool


class RecoveryGuestView(TypedDict):
    """A guest of a recovery. ``place``: its number in the order of moves, from 0 on."""

    instance_uuid: str
    place: int
    status: str
    destination: str | None
    migration_uuid: str | None
    tries: int
    problem: str | None


class RecoveryStepView(TypedDict):
    """One step of a recovery."""

    step: str
    message: str
    created_at: str


class ShownRecovery(_Recovery):
    """A recovery with its guests and steps."""

    guests: list[RecoveryGuestView]
    steps: list[RecoveryStepView]


class Switch(TypedDict):
    """A recovery, or all, that is paused or goes on."""

    name: str
    paused: bool
