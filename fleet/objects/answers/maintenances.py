# SPDX-License-Identifier: Apache-2.0
"""Maintenances of hosts (``fleet.maintenance_states``). Times are ISO 8601 text in UTC.

Made by :mod:`conductor_stub.maintenance.manager` for :mod:`fleet_cli.hosts.maintenance`.
"""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict


class MaintenanceView(TypedDict):
    """A maintenance. ``hosts``: how many by status; ``wave`` of ``waves``: the present one, 0 when it is over."""

    uuid: str
    name: str
    status: str
    paused: bool
    hook: str | None
    wanted_release: str | None
    cold: bool
    moves_at_a_time: int
    hosts: dict[str, int]
    wave: int
    waves: int
    created_at: str
    ended_at: str | None


class GuestsLeft(TypedDict):
    """Guests that must leave a host: those that are still there, all of them, and the moves under way."""

    left: int
    total: int
    moving: int


class MaintenanceHostView(TypedDict):
    """A host of a maintenance. ``problem``: what it waits for; ``attempt``: of its hook; ``guests``: while it is drained."""

    host: str
    wave: int
    status: str
    attempt: int
    problem: str | None
    began_at: str | None
    emptied_at: str | None
    worked_at: str | None
    ended_at: str | None
    guests: NotRequired[GuestsLeft | None]


class Estimate(TypedDict):
    """Seconds that the waves which are left may take, that the present wave may take in all, and that it has taken."""

    left_s: int
    wave_s: int
    wave_gone_s: int


class ShownMaintenance(TypedDict):
    """A maintenance with each of its hosts, by wave. ``estimate``: null while it is not known, and while it is paused."""

    maintenance: MaintenanceView
    hosts: list[MaintenanceHostView]
    estimate: NotRequired[Estimate | None]
