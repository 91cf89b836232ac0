# SPDX-License-Identifier: Apache-2.0
"""Which hosts a build avoids, and for how long.

==============================  ==================  ===========================================
an order came to nothing since  spends an attempt   the host is avoided
==============================  ==================  ===========================================
the driver failed, it was lost  yes                 for good
its agent stops                 no                  no: it is disabled meanwhile
its agent has no queue          no                  for four retry intervals
its claim was refused           after too many      for one retry interval: others may leave it
==============================  ==================  ===========================================
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from typing import Any

from conductor_stub.steps.limits import Limits
from fleet import errors, states
from fleet.clock import seconds
from fleet.db import history

#: How many retry intervals a host is avoided that has not tried the build, by the step it came back from. An agent that
#: is restarted has a queue again after some seconds; until then others are to be tried, and more than once.
_INTERVALS: Mapping[str, int] = {states.CAST_STEP: 4, states.CLAIM_STEP: 1}
#: Refusals of a host that say no more than that others were faster.
RACES = frozenset({errors.ComputeResourcesUnavailable.__name__, errors.GroupAffinityViolation.__name__})

Place = tuple[str, str | None]


@dataclasses.dataclass(frozen=True)
class Avoidance:
    """Hosts with their nodes: ``tried`` in vain, and ``left_alone`` without having tried it, ``until`` then at most.

    Whatever comes next goes to none of them; so another refusal by one that is left alone is a word said twice.
    """

    tried: tuple[Place, ...] = ()
    left_alone: tuple[Place, ...] = ()
    until: datetime.datetime | None = None

    @classmethod
    def of(cls, vain: Iterable[Any], limits: Limits, now: datetime.datetime) -> Avoidance:
        """:param vain: the build's own rows of :func:`fleet.db.history.vain`"""
        tried: dict[Place, None] = {}
        ends: dict[Place, datetime.datetime] = {}
        for row in vain:
            place = (row.host, row.node)
            if row.event != history.HAND_BACK:
                tried[place] = None
                continue
            end = row.created_at + seconds(_INTERVALS.get(row.step, 0) * limits.retry_interval_s)
            if end > now:
                ends[place] = max(end, ends.get(place, end))
        return cls(tuple(tried), tuple(ends), max(ends.values(), default=None))

    @property
    def places(self) -> frozenset[Place]:
        """All of them."""
        return frozenset((*self.tried, *self.left_alone))


def refused_claims(vain: Iterable[Any]) -> int:
    """How many claims of a build were refused without spending an attempt."""
    return sum(row.event == history.HAND_BACK and row.step == states.CLAIM_STEP for row in vain)
