# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage upgrade check``: whether this release can run with this configuration and this database.

Called by :mod:`fleet_cli.manage`.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Sequence

from oslo_config import cfg

from fleet import errors
from fleet.checks import findings, option_check
from fleet.checks.findings import Finding
from fleet.db.connection import tls
from fleet.db.engine import now as db_now
from fleet.db.engine.database import Database
from fleet.db.hosts import services
from fleet.db.schema import schema
from fleet.db.tables.hosts import ServiceRow
from fleet.rpc import versions
from fleet_cli.health import finding_list

#: Names in one line.
_NAMED = 5


class UpgradeCheck(finding_list.FindingLister):
    """Check schema, options and plugins before this release is started.

    Exit status: 0 the release can be started; 1 with warnings (or the configuration cannot be read); 2 it cannot be
    started.
    """

    def find(self, parsed_args: argparse.Namespace) -> list[Finding]:
        conf = self.app.conf
        files = option_check.config_files(conf)
        options = option_check.check(files) + option_check.contradictions(conf)
        return of_database(conf) + options + finding_list.of_services(files)


def of_database(conf: cfg.ConfigOpts) -> list[Finding]:
    """Check the schema and, if it can be read, the services."""
    try:
        # One try: a person waits. A daemon would wait for its database.
        conf.set_override("max_retries", 1, "database")
        with Database(conf).disposed() as database:
            schema.check(database)
            found = [findings.good("schema", f"the database is at version {schema.latest()}")]
            return found + _of_services(database, conf.service_down_time)
    except errors.SchemaMismatch as mismatch:
        differ = "the database is at {found}, this release needs {expected}".format(**mismatch.kwargs)
        return [findings.bad("schema", differ, str(mismatch.kwargs["advice"]))]
    except errors.ConfigError as unusable:
        return [findings.bad("database", unusable.message, tls.advice(unusable))]
    except errors.DatabaseError as unusable:
        return [findings.bad("database", unusable.message, "Check [database] connection, and that it runs.")]


def _of_services(database: Database, down_time_s: float) -> list[Finding]:
    rows = database.read(services.list_all)
    now = database.read(db_now.read)
    alive = [row for row in rows if services.is_up(row, now, down_time_s)]
    return [_heard_of(rows, now, down_time_s), *_older(alive)]


def _older(rows: Sequence[ServiceRow]) -> list[Finding]:
    """Check for live services with an older version than this release sends."""
    older = [
        f"{row.binary} on {row.host} ({row.rpc_version or 'version unknown'}, release {row.release or 'unknown'})"
        for row in rows
        if row.topic in versions.CURRENT
        and versions.lower(row.topic, versions.CURRENT[row.topic], row.rpc_version) != versions.CURRENT[row.topic]
    ]
    if not older:
        return []
    fix = "Leave [upgrade_levels] at 'auto' until they are upgraded, or name their version there."
    return [
        findings.doubtful("versions", f"{len(older)} live services are older than this release: {_few(older)}", fix)
    ]


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (" …" if len(names) > _NAMED else "")


def _heard_of(rows: Sequence[ServiceRow], now: datetime.datetime, down_time_s: float) -> Finding:
    silent = [f"{row.binary} on {row.host}" for row in rows if not services.is_up(row, now, down_time_s)]
    if not silent:
        return findings.good("services", f"all {len(rows)} services are up")
    fix = "Nothing to do if they are stopped for the upgrade; see 'fleet service list'."
    return findings.doubtful("services", f"{len(silent)} of {len(rows)} services are down: {_few(silent)}", fix)
