# SPDX-License-Identifier: Apache-2.0
"""The domains of ``[recovery] domain_label``, such as racks, with their hosts. Called by the keeper of recoveries."""

from __future__ import annotations

import collections
import datetime
from collections.abc import Collection, Mapping

from fleet.clock import Clock, seconds
from fleet.db.engine.database import Database
from fleet.db.hosts import failure_domains

#: Seconds until labels are read again: those of 100,000 hosts take seconds, and hardly ever change. A look reads those of
#: the hosts that are down.
_KEPT_S = 60


class Racks:
    """The hosts of each domain, as they were a minute ago at most."""

    def __init__(self, database: Database, label: str | None, clock: Clock) -> None:
        """:param label: None: there are no domains"""
        self._database = database
        self._label = label
        self._clock = clock
        self._read_at: datetime.datetime | None = None
        self._members: Mapping[str, Collection[str]] = {}

    def members(self) -> Mapping[str, Collection[str]]:
        """Return the hosts by their domain."""
        now = self._clock()
        if self._label is not None and (self._read_at is None or abs(now - self._read_at) >= seconds(_KEPT_S)):
            found: dict[str, set[str]] = collections.defaultdict(set)
            for host, value in self._database.read(failure_domains.of_hosts, self._label).items():
                found[value].add(host)
            self._members, self._read_at = found, now
        return self._members
