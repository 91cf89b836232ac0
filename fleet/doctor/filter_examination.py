# SPDX-License-Identifier: Apache-2.0
"""The check of ``fleet doctor`` on the filters of the schedulers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import oslo_messaging

from fleet import errors
from fleet.checks import findings
from fleet.checks.findings import Finding
from fleet.client.calls import Record

_FIX = (
    "Remove scheduler_default_filters, so that the default list applies, and name filters of your own in "
    "scheduler_additional_filters."
)


def examine(describe: Callable[[], Record]) -> Iterator[Finding]:
    """Check for filters of the default list that the scheduler does not run. A scheduler that cannot say it is skipped."""
    try:
        left_out = describe()["left_out"]
    except (errors.FleetError, oslo_messaging.MessagingException):
        # An earlier release, or a driver without filters. Whether a scheduler answers is another check.
        return
    if not left_out:
        yield findings.good("filters", "every filter of the default list is configured")
        return
    unjudged = [kind.replace("/", " ").strip() for each in left_out for kind in each["unjudged"]]
    effect = f"; these parts of requests have no effect: {', '.join(unjudged)}" if unjudged else ""
    names = ", ".join(each["filter"] for each in left_out)
    yield findings.doubtful("filters", f"scheduler_default_filters leaves out {names}{effect}", _FIX)
