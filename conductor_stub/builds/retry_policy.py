# SPDX-License-Identifier: Apache-2.0
"""Chooses what a build does after the scheduler's refusal: give up, wait and retry, or build as many as fit.

Called by :mod:`conductor_stub.builds.placement`.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from conductor_stub.steps.limits import StepLimits
from conductor_stub.steps.placement import knows_no_host
from fleet import errors
from fleet.clock import seconds
from fleet.db.engine.database import Connection
from fleet.db.instances import history
from fleet.objects import BuildRequest
from fleet.reasons import Reason


def ask_again_at(
    refusal: Exception,
    avoided_until: datetime.datetime | None,
    waits_since: datetime.datetime | None,
    deadline: datetime.datetime | None,
    limits: StepLimits,
    now: datetime.datetime,
) -> datetime.datetime | None:
    """Return the time at which to call the scheduler again; None if its refusal is final.

    A refusal is not final in three cases: the scheduler knows no host yet, a host is avoided only for a time, or hosts
    are silent and may send heartbeats again.

    :param waits_since: when the scheduler first refused because of silent hosts
    :param deadline: of the build. Two retry intervals before it the refusal is final, so that the fault names the reason
    """
    if not isinstance(refusal, errors.NoValidHost):
        return None
    retry = seconds(limits.retry_interval_s)
    again = avoided_until
    if again is None and knows_no_host(refusal):
        again = now + retry
    elif again is None and refusal.reason_code is Reason.HOSTS_DOWN and refusal.details.get("silent"):
        waits_until = (waits_since or now) + seconds(limits.hosts_down_retry_time_s)
        again = now + retry if now + retry <= waits_until else None
    if again is None or (deadline is not None and again + 2 * retry > deadline):
        return None
    return again


def fitting(refusal: Exception, wanted: int, spec: Mapping[str, object], failed: int) -> int:
    """Return the number of ``wanted`` refused builds that may be placed without the others; 0 for none.

    :param spec: of their request
    :param failed: builds of the request that are in ERROR; the others are expected to succeed
    """
    placed = refusal.details.get("placed", 0) if isinstance(refusal, errors.NoValidHost) else 0
    return placed if needed(wanted, spec, failed) <= placed < wanted else 0


def needed(wanted: int, spec: Mapping[str, object], failed: int) -> int:
    """Return the number of ``wanted`` builds that must be placed together. The arguments are those of :func:`fitting`."""
    # Earlier releases accepted names and keys that are refused now.
    request = BuildRequest.from_wire({**spec, "name": "", "metadata": {}})
    return max(request.fewest - (request.num_instances - wanted - failed), 1)


def waits_since(connection: Connection, uuid: str) -> datetime.datetime | None:
    """Time of the first refusal that was not final."""
    first = history.first(connection, uuid, history.SCHEDULE)
    return None if first is None else first.created_at
