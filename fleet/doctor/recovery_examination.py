# SPDX-License-Identifier: Apache-2.0
"""The check of ``fleet doctor`` on recoveries. :mod:`fleet.doctor.examination` runs it."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Iterator

from fleet import recovery_states
from fleet.checks import findings
from fleet.checks.findings import Finding
from fleet.clock import durations, naive_utc
from fleet.objects.answers.recoveries import RecoveriesView, RecoveryView

#: Seconds after which a recovery that has not ended is a warning.
LONG_S = 3600


def examine(listed: RecoveriesView, now: datetime.datetime) -> Iterator[Finding]:
    """Check for recoveries that an operator must decide about. :param now: the database's clock, naive UTC"""
    for domain in listed["domains"]:
        if domain["stopped"]:
            where = f"in {domain['name']}" if domain["name"] else "in the fleet"
            text = f"stopped {where}: {domain['silent']} of {domain['hosts']} hosts are silent at once"
            fix = "Look at their network and power. 'fleet recovery start HOST' recovers one that is lost for certain."
            yield findings.bad("recovery", text, fix)
    if listed["paused"]:
        fix = "'fleet recovery resume' lets them go on."
        yield findings.doubtful("recovery", "all recoveries are paused, also those to come", fix)
    for each in listed["recoveries"]:
        if each["ended_at"] is None:
            yield from _open(each, now)


def _open(each: RecoveryView, now: datetime.datetime) -> Iterator[Finding]:
    host = shlex.quote(each["host"])
    show, resume = f"'fleet recovery show {host}'", f"'fleet recovery resume {host}'"
    lasts_s = (now - naive_utc(datetime.datetime.fromisoformat(each["created_at"]))).total_seconds()
    if each["status"] == recovery_states.HELD:
        fix = f"{show} has its steps; {resume} tries again."
        yield findings.bad("recovery", f"host {each['host']} is held: {each['problem']}", fix)
    elif each["paused"]:
        yield findings.doubtful("recovery", f"host {each['host']} is paused", f"{resume} lets it go on.")
    elif lasts_s > LONG_S:
        guests = each.get("guests", {})
        left = guests.get(recovery_states.WAITING, 0) + guests.get(recovery_states.MOVING, 0)
        text = f"host {each['host']}: {left} guests are not elsewhere after {durations.shown(lasts_s)}"
        yield findings.doubtful("recovery", text, f"{show} says why they wait.")
