# SPDX-License-Identifier: Apache-2.0
"""Keeps a row whose work fails from holding up the others of a round. Called by the sweepers and the keepers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from oslo_log import log as logging

from fleet import errors
from fleet.telemetry.rate_limited_log import RateLimit

LOG = logging.getLogger(__name__)

#: Of all rounds of the process: a row fails in each of them for the same reason.
_failures = RateLimit()


class Failed:
    """The outcome of the work on one row."""

    #: Why the work failed; "" if it did not.
    problem = ""


@contextlib.contextmanager
def apart(what: str) -> Iterator[Failed]:
    """Log the failure of the work on one row, once a minute, and go on.

    :param what: begins the log line, such as "The recovery of host 'c1'"
    :raises errors.DatabaseUnavailable: it meets all rows
    """
    outcome = Failed()
    try:
        yield outcome
    except errors.DatabaseUnavailable:
        raise
    except errors.FleetError as failure:
        outcome.problem = failure.message
        if _failures.due(what) is not None:
            LOG.error("%s: %s", what, failure.message)
    except Exception as bug:
        outcome.problem = f"{type(bug).__name__}: {bug}"
        if _failures.due(what) is not None:
            LOG.exception("%s failed; the others go on: %s", what, outcome.problem)
