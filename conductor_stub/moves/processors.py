# SPDX-License-Identifier: Apache-2.0
"""The hosts that lack features of the processor which a running guest sees. Called by :mod:`conductor_stub.moves.ways`.

The scheduler's GuestCpuFilter leaves these hosts out of a live migration. A guest for which no other host is left must be
known before: its migration could never succeed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection

from fleet.db.engine.database import Connection, Transaction
from fleet.db.hosts import cpu_reports, hosts
from fleet.objects import GuestCpu, host_report


class Processors:
    """Reads each report once.

    :param reported: returns what a node reports under a key of its ``stats``
    :param within: only these hosts are compared
    """

    def __init__(
        self,
        connection: Transaction | Connection,
        reported: Callable[[str | None, str | None, str], str | None],
        within: Collection[str] | None = None,
    ) -> None:
        self._connection = connection
        self._reported = reported
        self._within = within
        self._all_report = functools.cache(functools.partial(hosts.all_report, connection))
        self._report = functools.cache(functools.partial(hosts.cpu_info, connection))
        self._different = functools.cache(functools.partial(cpu_reports.different, connection, host_report.LIVE))
        self._lacking = functools.cache(self._find_lacking)

    def seen(self, host: str | None, node: str | None) -> GuestCpu | None:
        """Return the processor that running guests of a node see; None if any host has what they need.

        It is None unless the host reports that guests see its own processor, and so do all hosts of its way: an older
        agent reports a part of the features only, and then the hypervisor decides. A guest counts as one that uses all
        features of its present host, because no record shows which of them it has found there.
        """
        if not self._reported(host, node, host_report.LIVE_CPU):
            return None
        if not self._all_report(host_report.LIVE_CPU, host_report.LIVE, self._way(host, node)):
            return None
        found = GuestCpu.of_report(self._report(host, node))
        return found if found.features else None

    def lacking(self, host: str | None, node: str | None) -> frozenset[str]:
        """Return the hosts of the same way that lack features of what running guests of a node see."""
        seen = self.seen(host, node) is not None
        return self._lacking(self._way(host, node), self._report(host, node)) if seen else frozenset()

    def _find_lacking(self, way: str, report: str | None) -> frozenset[str]:
        seen, within = GuestCpu.of_report(report), None if self._within is None else tuple(sorted(self._within))
        insufficient = [each for each in self._different(way, within) if seen.missing_in(each)]
        return frozenset(cpu_reports.hosts_with(self._connection, host_report.LIVE, way, insufficient, within))

    def missing(self, host: str | None, node: str | None, other: str) -> str:
        """Return what a host lacks of the processor that running guests of a node see: the end of a sentence about it."""
        there = self._different(self._way(host, node), (other,))
        return GuestCpu.of_report(self._report(host, node)).lacks(there[0] if there else None)

    def _way(self, host: str | None, node: str | None) -> str:
        return self._reported(host, node, host_report.LIVE) or ""
