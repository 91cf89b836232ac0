# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage upgrade check``: whether this release can run with this configuration and this database."""

from __future__ import annotations

import argparse

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as db_exception

from fleet import errors, findings, option_check
from fleet.cli import finding_list
from fleet.cli.database_command import first_line
from fleet.clock import utcnow
from fleet.db import migration, services
from fleet.db.engine import Database
from fleet.findings import Finding

#: Names in one line.
_NAMED = 5


class UpgradeCheck(finding_list.FindingLister):
    """Check schema, options and plugins before this release is started.

    Exit status: 0 it can be started; 1 it can, with warnings (or the configuration cannot be read at all); 2 it cannot.
    """

    def find(self, parsed_args: argparse.Namespace) -> list[Finding]:
        conf = self.app.conf
        files = finding_list.config_files(conf)
        options = option_check.check(files) + option_check.contradictions(conf)
        return of_database(conf) + options + finding_list.of_services(files)


def of_database(conf: cfg.ConfigOpts) -> list[Finding]:
    """The schema; and, if it can be read, who uses it."""
    try:
        # A person waits: one try, where a daemon would wait for its database.
        conf.set_override("max_retries", 1, "database")
        with Database(conf).disposed() as database:
            migration.check(database)
            found = [findings.good("schema", f"the database is at version {migration.latest()}")]
            return found + _of_services(database, conf.service_down_time)
    except errors.SchemaMismatch as mismatch:
        found = "the database is at {found}, this release needs {expected}".format(**mismatch.kwargs)
        return [findings.bad("schema", found, str(mismatch.kwargs["advice"]))]
    except (db_exception.DBError, sa.exc.SQLAlchemyError) as unusable:
        return [findings.bad("database", first_line(unusable), "Check [database] connection, and that it runs.")]


def _of_services(database: Database, down_time_s: float) -> list[Finding]:
    rows = database.read(services.list_all)
    now = utcnow()
    silent = [f"{row.binary} on {row.host}" for row in rows if not services.is_up(row, now, down_time_s)]
    if not silent:
        return [findings.good("services", f"all {len(rows)} services have been heard of")]
    named = ", ".join(silent[:_NAMED]) + (" …" if len(silent) > _NAMED else "")
    fix = "Nothing to do if they are stopped for the upgrade; see 'fleet service list'."
    return [findings.doubtful("services", f"{len(silent)} of {len(rows)} services are down: {named}", fix)]
