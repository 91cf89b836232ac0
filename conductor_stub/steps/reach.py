# SPDX-License-Identifier: Apache-2.0
"""Finds the hosts that do not reach the volumes of an instance, from the reports of all hosts.

Called by the placements of builds and moves. The host itself checks its reach again.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence

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


def reports(
    connection: Transaction | Connection, within: Collection[str] | None = None
) -> list[tuple[str, str | None]]:
    """Return each host with the names of the machines whose volumes it reaches, as it reports them.

    :param within: only these hosts; None: all
    """
    return hosts.stats_of_all(connection, host_report.VOLUME_HOSTS, within)


def lacking(connection: Transaction | Connection, instance_uuid: str) -> dict[str, Lacking]:
    """Return, by host, the first volume of the instance that it does not reach."""
    wanted = needed(connection, [instance_uuid])
    return among(reports(connection), wanted) if wanted else {}


def needed(connection: Transaction | Connection, instance_uuids: Sequence[str]) -> list[Lacking]:
    """Return the volumes that follow these instances to another host, and whose data are on a machine."""
    rows = attachments.that_follow(connection, instance_uuids)
    return [Lacking(row.volume_name, machine) for row in rows if (machine := attachments.to_attachment(row).machine)]


def among(reported: Iterable[tuple[str, str | None]], wanted: Sequence[Lacking]) -> dict[str, Lacking]:
    """Return, by host, the first of these volumes that it does not reach.

    A host that reports no reach counts as one that reaches all.

    :param reported: :func:`reports`
    """

    @functools.cache
    def unnamed(patterns: str) -> list[Lacking]:
        """Many hosts report the same, and to compare patterns takes long."""
        return [each for each in wanted if not reaches("", patterns.split(","), each.machine)]

    found: dict[str, Lacking] = {}
    for host, patterns in reported:
        missing = unnamed(patterns) if patterns is not None else ()
        first = next((each for each in missing if each.machine != host), None)
        if first is not None:
            found[host] = first
    return found


def beside(refusal: errors.NoValidHost, left_out: Mapping[str, Lacking]) -> errors.NoValidHost:
    """The refusal of a request that left these hosts out."""
    volumes = ", ".join(sorted({f"{each.volume} on machine {each.machine}" for each in left_out.values()}))
    reason = f"{refusal.reason} Volume {volumes} cannot be reached from {removal.few(sorted(left_out), 'host')}."
    return type(refusal)(reason=reason, details=dict(refusal.details))
