# SPDX-License-Identifier: Apache-2.0
"""The check of ``fleet doctor`` on the filters of the schedulers. :mod:`fleet.doctor.examination` runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import oslo_messaging

from fleet import errors
from fleet.checks import findings
from fleet.checks.findings import Finding
from fleet.client.calls import Record

#: Seconds without a proof that are no longer usual.
_OLD_S = 300
_FIX = (
    "Remove scheduler_default_filters, so that the default list applies, and name filters of your own in "
    "scheduler_additional_filters."
)


def examine(describe: Callable[[], Record]) -> Iterator[Finding]:
    """Check for filters of the default list that the scheduler does not run, and whether it can keep the promises to survive
    a loss. A scheduler that does not report it is skipped.
    """
    try:
        answer = describe()
        left_out = answer["left_out"]
    except (errors.FleetError, oslo_messaging.MessagingException):
        # An earlier release, or a driver without filters. Whether a scheduler answers is another check.
        return
    yield from _promises(answer.get("promises"))
    if not left_out:
        yield findings.good("filters", "every filter of the default list is configured")
        return
    unjudged = [kind.replace("/", " ").strip() for each in left_out for kind in each["unjudged"]]
    effect = f"; these parts of requests have no effect: {', '.join(unjudged)}" if unjudged else ""
    names = ", ".join(each["filter"] for each in left_out)
    yield findings.doubtful("filters", f"scheduler_default_filters leaves out {names}{effect}", _FIX)


def _promises(proved: Record | None) -> Iterator[Finding]:
    """:param proved: by verdict, how many losses; None: nothing is promised, or the scheduler is of an earlier release"""
    if proved is None:
        return
    age_s = proved.get("age", 0)
    if age_s > _OLD_S:
        yield findings.doubtful(
            "promises",
            f"what the fleet promises to survive was not proved for {age_s} s",
            "The log of the schedulers names the reason: lines with 'Periodic task tolerance failed'.",
        )
    unsafe, unknown, lacking = proved["unsafe"], proved["not proved"], proved["unprotected guests"]
    if not unsafe and not unknown:
        yield findings.good("promises", f"the fleet survives each of the {proved['safe']} losses that it promises to")
        return
    text = f"of the losses that the fleet promises to survive, {unsafe} are unsafe and {unknown} not proved"
    guests = f"; {lacking} guests have no place then" if lacking else ""
    yield findings.doubtful(
        "promises", f"{text}{guests}", "'fleet tolerance show' names them. Add hosts, or free some."
    )
