# SPDX-License-Identifier: Apache-2.0
"""Balancing of aggregates (``fleet.balance_states``). Times are ISO 8601 text in UTC, loads are points.

Made by :mod:`conductor_stub.balance.manager` for :mod:`fleet_cli.hosts.balance`.
"""

from __future__ import annotations

from typing_extensions import TypedDict


class BalanceMove(TypedDict):
    """A move of a round. ``gain``: points by which the hotter of its two hosts should be less loaded."""

    instance_uuid: str
    name: str
    source: str
    destination: str
    memory_mb: int
    disk_gb: int
    gain: float
    status: str
    migration: str | None
    why: str


class BalanceSeen(TypedDict):
    """Loads that were seen. ``before``, ``expected``: of the most loaded host above the mean; ``loads``: of some of them."""

    hosts: int
    measured: int
    mean: float
    before: float
    expected: float
    loads: dict[str, float]
    hot: list[str]


class BalanceRound(TypedDict):
    """A round.

    ``not_done``: by host that stays hot, the reason; ``after``: the same as ``before``, measured after all moves;
    ``uuid``: None for a suggestion that is not stored.
    """

    uuid: str | None
    aggregate: str
    mode: str
    status: str
    seen: BalanceSeen
    moves: list[BalanceMove]
    not_done: dict[str, str]
    after: float | None
    created_at: str
    seen_at: str
    ended_at: str | None


class BalanceView(TypedDict):
    """An aggregate. ``mode``: off, suggest, confirm or auto; ``hot_since``: by host; ``last``: its newest round."""

    aggregate: str
    mode: str
    paused: bool
    looked_at: str | None
    hot_since: dict[str, str]
    last: BalanceRound | None
