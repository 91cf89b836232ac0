# SPDX-License-Identifier: Apache-2.0
"""Whether a build waits for room, how long, and how its wait ends in vain."""

from __future__ import annotations

import datetime
from typing import Any

from fleet import errors
from fleet.clock import durations, seconds
from fleet.db import instances
from fleet.reasons import Reason

#: Refusals that a change of hosts, instances or aggregates may end. A host for NEVER_FITS does not exist, and no change
#: corrects a request.
_MAY_END = frozenset({Reason.CAPACITY, Reason.HOSTS_DOWN, Reason.POLICY})


def wait_until(row: Any) -> datetime.datetime | None:
    """When the build stops waiting for room; None if it never waits."""
    wait_s = instances.spec_of(row).get("wait_for_capacity_s")
    return row.created_at + seconds(wait_s) if wait_s else None


def waits(row: Any, refusal: Exception, now: datetime.datetime) -> bool:
    """Return True if the build is queued after this refusal of the scheduler."""
    if not isinstance(refusal, errors.NoValidHost) or refusal.reason_code not in _MAY_END:
        return False
    until = wait_until(row)
    return until is not None and now < until


def in_vain(row: Any, queued: Any) -> errors.NoValidHost:
    """The error of a build that has waited as long as it may.

    :param queued: from :func:`fleet.db.queued_builds.find`
    """
    waited = durations.shown((queued.wait_until - row.created_at).total_seconds())
    reason = f"No host had room within {waited}. The last refusal: {queued.message}"
    return errors.NoValidHost(reason=reason, details={"reason_code": queued.reason})
