# SPDX-License-Identifier: Apache-2.0
"""The last report of each host, so that an unchanged one is not sent every minute.

:mod:`compute_agent.ledger.reporter` asks it before each report.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable

from fleet.objects import HostReport


@dataclasses.dataclass(frozen=True)
class Reported:
    """A report of one host: its nodes' inventories, the names of its nodes, and its alarm."""

    reports: tuple[HostReport, ...]
    nodes: tuple[str, ...]
    alarm: str


class LastReports:
    """Not thread-safe: the audits of a process run one after the other.

    :param resend_s: an unchanged report is sent again after this many seconds; 0 sends it every time
    """

    def __init__(self, resend_s: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._resend_s = resend_s
        self._clock = clock
        self._said: dict[str, tuple[Reported, float]] = {}

    def is_news(self, host: str, said: Reported) -> bool:
        known = self._said.get(host)
        return known is None or known[0] != said or self._clock() - known[1] >= self._resend_s

    def remember(self, host: str, said: Reported) -> None:
        """The conductor has accepted the report."""
        self._said[host] = said, self._clock()

    def forget(self, hosts: Iterable[str] | None = None) -> None:
        """Send the next reports of these hosts, or of all, in any case."""
        for host in list(self._said) if hosts is None else hosts:
            self._said.pop(host, None)


def of_hosts(reports: Iterable[HostReport]) -> dict[str, tuple[HostReport, ...]]:
    """Return the reports of each host, in their order."""
    found: dict[str, list[HostReport]] = {}
    for report in reports:
        found.setdefault(report.host, []).append(report)
    return {host: tuple(of_host) for host, of_host in found.items()}
