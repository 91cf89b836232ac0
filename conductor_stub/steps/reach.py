# SPDX-License-Identifier: Apache-2.0
"""Finds the hosts that do not reach the volumes of an instance, from the reports of all hosts.

Called by the placements of builds and moves. The host itself checks its reach again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from fleet import errors
from fleet.db.engine.database import Connection, Transaction
from fleet.db.hosts import hosts
from fleet.db.upkeep import removal
from fleet.db.volumes import attachments
from fleet.objects import host_report
from fleet.objects.attachment import reaches


@dataclasses.dataclass(frozen=True)
class Lacking:
    """The first volume of an instance that a host does not reach, and the machine that has its data."""

    volume: str
    machine: str

    def reason(self, host: str) -> str:
        return (
            f"has volume {self.volume} with data on machine {self.machine}, which host {host} does not reach: the option "
            "volume_hosts of its agent names the machines that it reaches"
        )


def reports(connection: Transaction | Connection) -> list[tuple[str, str | None]]:
    """Return each host with the names of the machines whose volumes it reaches, as it reports them."""
    return hosts.stats_of_all(connection, host_report.VOLUME_HOSTS)


def lacking(
    connection: Transaction | Connection,
    instance_uuid: str,
    read: Callable[[], list[tuple[str, str | None]]] | None = None,
) -> dict[str, Lacking]:
    """Return, by host, the first volume that it does not reach. A host that reports no reach counts as one that reaches all.

    :param read: returns :func:`reports` of the connection, for callers that ask about many instances
    """
    rows = attachments.of_instances(connection, [instance_uuid])
    needed = [Lacking(row.volume_name, machine) for row in rows if (machine := attachments.to_attachment(row).machine)]
    found: dict[str, Lacking] = {}
    for host, reported in (read() if read else reports(connection)) if needed else ():
        missing = (each for each in needed if not reaches(host, (reported or "").split(","), each.machine))
        first = None if reported is None else next(missing, None)
        if first is not None:
            found[host] = first
    return found


def beside(refusal: errors.NoValidHost, left_out: Mapping[str, Lacking]) -> errors.NoValidHost:
    """The refusal of a request that left these hosts out."""
    volumes = ", ".join(sorted({f"{each.volume} on machine {each.machine}" for each in left_out.values()}))
    reason = f"{refusal.reason} Volume {volumes} cannot be reached from {removal.few(sorted(left_out), 'host')}."
    return type(refusal)(reason=reason, details=dict(refusal.details))
