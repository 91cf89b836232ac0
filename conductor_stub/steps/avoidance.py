# SPDX-License-Identifier: Apache-2.0
"""The hosts that the next attempt leaves out, each with the time until which it is avoided.

Called by the modules beside it and those of :mod:`conductor_stub.builds`.

================================  ==================  ============================================
the order failed because          spends an attempt   the host is avoided
================================  ==================  ============================================
the driver failed, or was lost    yes                 for ever
the agent is stopping             no                  no: its service is disabled meanwhile
the agent has no queue            no                  for four retry intervals
the claim was refused             after too many      for one retry interval: room may become free
================================  ==================  ============================================
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping

from conductor_stub.steps.limits import StepLimits
from fleet import errors, states
from fleet.clock import seconds
from fleet.db.instances import history
from fleet.db.tables.instances import FailedOrder

#: Retry intervals for which a host is avoided that handed a build back, by the step. An agent that is restarted has a
#: queue again after some seconds; until then other hosts are tried, and more than once.
_INTERVALS: Mapping[str, int] = {states.CAST_STEP: 4, states.CLAIM_STEP: 1}
#: Refusals of a host that another claim was faster on.
RACES = frozenset({errors.ComputeResourcesUnavailable.__name__, errors.GroupAffinityViolation.__name__})

#: A host and a node of it.
HostNode = tuple[str, str | None]


@dataclasses.dataclass(frozen=True)
class Avoidance:
    """Hosts and nodes: ``tried`` ones have failed; ``left_alone`` ones handed the build back and are avoided ``until``.

    The next attempt goes to none of them. A second refusal by one that is left alone is therefore a repeated message.
    """

    tried: tuple[HostNode, ...] = ()
    left_alone: tuple[HostNode, ...] = ()
    until: datetime.datetime | None = None

    @classmethod
    def of(cls, failed: Iterable[FailedOrder], limits: StepLimits, now: datetime.datetime) -> Avoidance:
        """:param failed: events of one build, from :func:`fleet.db.instances.history.failed_orders`"""
        tried: dict[HostNode, None] = {}
        ends: dict[HostNode, datetime.datetime] = {}
        for row in failed:
            place = (row.host, row.node)
            if row.event != history.HAND_BACK:
                tried[place] = None
                continue
            end = row.created_at + seconds(_INTERVALS.get(row.step or "", 0) * limits.retry_interval_s)
            if end > now:
                ends[place] = max(end, ends.get(place, end))
        return cls(tuple(tried), tuple(ends), max(ends.values(), default=None))

    @property
    def places(self) -> frozenset[HostNode]:
        """All that the next attempt avoids."""
        return frozenset((*self.tried, *self.left_alone))


def refused_claims(failed: Iterable[FailedOrder]) -> int:
    """Number of refused claims that spent no attempt."""
    return sum(row.event == history.HAND_BACK and row.step == states.CLAIM_STEP for row in failed)
