# SPDX-License-Identifier: Apache-2.0
"""The progress of a maintenance: guests that are left on its hosts, and how long its waves may still take.

:mod:`conductor_stub.maintenance.manager` shows it.
"""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fleet import maintenance_states
from fleet.db.engine.database import Connection
from fleet.db.operations import maintenance_progress
from fleet.db.operations.maintenance_progress import Span
from fleet.db.tables.operations.maintenance import MaintenanceHostRow, MaintenanceRow
from fleet.objects.answers.maintenances import Estimate, GuestsLeft


class _Wave(NamedTuple):
    """A wave that has ended.

    :ivar drain_s: until its last host was empty, for each guest and each host
    :ivar rest_s: from then to its end
    """

    drain_s: float
    rest_s: float


def guests_left(
    connection: Connection, hosts: Sequence[MaintenanceHostRow], planned: Mapping[str, int]
) -> dict[str, GuestsLeft]:
    """Return, by host that is drained, how many guests are still there. :param planned: guests of each host in the plan"""
    drained = [each.host for each in hosts if each.status == maintenance_states.DRAINING]
    left, moving = maintenance_progress.left(connection, drained), maintenance_progress.moving(connection, drained)
    return {
        host: {
            "left": left.get(host, 0),
            "total": max(planned.get(host, 0), left.get(host, 0)),
            "moving": moving.get(host, 0),
        }
        for host in drained
    }


def estimate(
    row: MaintenanceRow,
    hosts: Sequence[MaintenanceHostRow],
    planned: Mapping[str, int],
    pauses: Sequence[Span],
    now: datetime.datetime,
) -> Estimate | None:
    """Return how long the waves may still take; None before one has ended, and while the maintenance does not go on.

    A wave takes as long to drain, for each guest in the plan and each host, as the waves before, in the median; and then
    as long to its end as they. Pauses do not count.
    """
    waves: dict[int, list[MaintenanceHostRow]] = {}
    for each in hosts:
        if each.wave and (each.status != maintenance_states.SKIPPED or each.began_at is not None):
            waves.setdefault(each.wave, []).append(each)
    left = [number for number, there in waves.items() if any(each.open_host is not None for each in there)]
    ended = [_took(there, planned, pauses) for number, there in waves.items() if number not in left]
    known = [each for each in ended if each is not None]
    if row.paused or not left or not known:
        return None
    drain_s, rest_s = (statistics.median(each) for each in zip(*known, strict=True))
    expected = {number: drain_s * _weight(waves[number], planned) + rest_s for number in left}
    present = min(left)
    begun = [each.began_at for each in waves[present] if each.began_at is not None]
    gone_s = _worked_s(min(begun), now, pauses) if begun else 0.0
    left_s = sum(expected.values()) - min(gone_s, expected[present])
    return {"left_s": round(left_s), "wave_s": round(expected[present]), "wave_gone_s": round(gone_s)}


def _took(hosts: Sequence[MaintenanceHostRow], planned: Mapping[str, int], pauses: Sequence[Span]) -> _Wave | None:
    """Return None if no host of the wave is done: a host that was skipped says nothing."""
    done = [each for each in hosts if each.status == maintenance_states.DONE]
    began = [each.began_at for each in done if each.began_at is not None]
    emptied = [each.emptied_at for each in done if each.emptied_at is not None]
    over = [each.ended_at for each in done if each.ended_at is not None]
    if not (began and emptied and over):
        return None
    drained_s = _worked_s(min(began), max(emptied), pauses)
    return _Wave(drained_s / _weight(done, planned), _worked_s(max(emptied), max(over), pauses))


def _weight(hosts: Sequence[MaintenanceHostRow], planned: Mapping[str, int]) -> int:
    return sum(1 + planned.get(each.host, 0) for each in hosts)


def _worked_s(since: datetime.datetime, until: datetime.datetime, pauses: Sequence[Span]) -> float:
    """Return the seconds in between without pauses."""
    paused = ((min(each.until or until, until) - max(each.since, since)).total_seconds() for each in pauses)
    return (until - since).total_seconds() - sum(max(0.0, each) for each in paused)
