# SPDX-License-Identifier: Apache-2.0
"""The check of ``fleet doctor`` on maintenances. :mod:`fleet.doctor.examination` runs it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from fleet import maintenance_states
from fleet.checks import findings
from fleet.checks.findings import Finding
from fleet.client.connection import Record
from fleet.objects import host_report
from fleet.objects.answers.maintenances import MaintenanceView, ShownMaintenance

_AWAY = (maintenance_states.WORKING, maintenance_states.RETURNING)


def hosts_at_work(maintenances: Sequence[ShownMaintenance], services: Sequence[Record]) -> set[str]:
    """Return the hosts whose agents may be away: the work is under way, or they have not reported since.

    :param maintenances: that have not ended
    """
    returning = f"{host_report.AUTO}{maintenance_states.REASON}"
    found = {each["host"] for each in services if (each["disabled_reason"] or "").startswith(returning)}
    for shown in maintenances:
        found |= {each["host"] for each in shown["hosts"] if each["status"] in _AWAY}
    return found


def examine(maintenances: Sequence[MaintenanceView]) -> Iterator[Finding]:
    """Check for hosts that have failed: they stay out of use until an operator decides."""
    for each in maintenances:
        failed = each["hosts"].get(maintenance_states.FAILED, 0)
        if each["ended_at"] is None and failed:
            name = shlex.quote(each["name"])
            counted = "1 host has" if failed == 1 else f"{failed} hosts have"
            text = f"{each['name']}: {counted} failed, in the hook or without coming back"
            fix = (
                f"'fleet maintenance hosts {name}' shows why. 'fleet maintenance resume {name}' tries again, "
                f"'fleet maintenance skip {name} HOST' leaves a host out."
            )
            yield findings.doubtful("maintenance", text, fix)
