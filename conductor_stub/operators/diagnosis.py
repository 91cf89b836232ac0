# SPDX-License-Identifier: Apache-2.0
"""Reads the database and signs of trouble in the ledger for ``fleet doctor``.

:mod:`conductor_stub.operators.manager` answers with them.
"""

from __future__ import annotations

import time

from fleet.clock import Clock, utcnow
from fleet.db.connection import replication
from fleet.db.engine.database import Database
from fleet.db.schema.schema import latest, version
from fleet.db.upkeep import diagnosis
from fleet.objects.answers.hosts import Findings


class Diagnosis:
    """Reads, and changes nothing."""

    def __init__(self, database: Database, host: str, clock: Clock = utcnow) -> None:
        self._database = database
        self._host = host
        self._clock = clock

    def run(self) -> Findings:
        """Return the findings.

        ``host`` and ``now`` (the database's clock), ``database`` (``engine``, ``took_s`` of a query, ``version`` of the
        schema and the one ``expected``), ``replication`` (:mod:`fleet.db.connection.replication`), ``orphans``
        (``host``, ``node``, ``memory_mb``), ``overdue`` (steps that are not swept), ``down`` (instances whose guest
        does not run: ``uuid``, ``name``, ``host``, ``power_state``), ``volumes`` (``overdue`` steps, and those
        ``stuck``: ``name``, ``status``, ``host``), ``ahead`` (services that were heard of later than now: a
        conductor's clock is wrong) and ``numbers`` (how many there are of ``orphans``, ``down`` and ``ahead``, of which at
        most 100 are named).
        """
        began = time.monotonic()
        self._database.ping()
        took_s = time.monotonic() - began
        now = self._clock()
        found = self._database.read_once(diagnosis.findings, now)
        schema = {"version": version(self._database), "expected": latest()}
        return {
            "host": self._host,
            "now": self._clock().isoformat(),
            "database": {"engine": self._database.dialect, "took_s": took_s, **schema},
            "replication": self._database.read_once(replication.read),
            **found,
        }
