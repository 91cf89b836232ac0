# SPDX-License-Identifier: Apache-2.0
"""The resources that instances had at times of the last hours.

They follow from the times at which each instance started and ended, so no samples are stored. Called by
:mod:`conductor_stub.operators.use`.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from fleet.db.tables import models

_INSTANCES = models.instances
#: What is summed: instances themselves, and their resources.
SUMS = ("instances", "vcpus", "memory_mb", "disk_gb")
_DISK = _INSTANCES.c.root_gb + _INSTANCES.c.ephemeral_gb
_SIZES = (sa.literal(1), _INSTANCES.c.vcpus, _INSTANCES.c.memory_mb, _DISK)
_OLDEST = (models.services, _INSTANCES)
_BEGAN, _ENDED = _INSTANCES.c.launched_at, _INSTANCES.c.terminated_at


@dataclasses.dataclass(frozen=True)
class Use:
    """``sums[i]`` are the SUMS at ``times[i]``."""

    times: Sequence[datetime.datetime]
    sums: Sequence[Sequence[int]]


def read(connection: sa.Connection, now: datetime.datetime, hours: int, points: int) -> Use:
    """The sums at ``points`` times, the last of which is ``now``, evenly spaced over ``hours``.

    An instance counts from the moment when it first ran until it was deleted, with the size that it has now, or had last.
    Deleted instances that ``fleet-manage db archive`` has taken away are not counted.
    """
    since = now - datetime.timedelta(hours=hours)
    every = (now - since) / (points - 1)
    started_before = sa.and_(_BEGAN <= since, sa.or_(_ENDED.is_(None), _ENDED > since))
    sums = [sa.func.coalesce(sa.func.sum(each), 0) for each in _SIZES]
    total = [int(each) for each in connection.execute(sa.select(*sums).where(started_before)).one()]
    changes = [[0] * len(SUMS) for _ in range(points)]
    for moment, sign in ((_BEGAN, 1), (_ENDED, -1)):
        within = sa.select(moment, *_SIZES).where(_BEGAN.is_not(None), moment > since, moment <= now)
        for at, *sizes in connection.execute(within):
            _add(changes[min(-((since - at) // every), points - 1)], sizes, sign)
    found = []
    for change in changes:
        _add(total, change, 1)
        found.append(list(total))
    return Use([since + every * number for number in range(points)], found)


def began(connection: sa.Connection) -> datetime.datetime | None:
    """Return the time of the fleet's first service or instance; None if it has neither."""
    oldest = (connection.execute(sa.select(sa.func.min(table.c.created_at))).scalar() for table in _OLDEST)
    return min((each for each in oldest if each is not None), default=None)


def _add(to: list[int], sizes: Iterable[int], sign: int) -> None:
    for place, size in enumerate(sizes):
        to[place] += sign * size
