# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage upgrade check``: whether this release may be started."""

from __future__ import annotations

import json
import pathlib

import pytest
import sqlalchemy as sa

from fleet.clock import seconds, utcnow
from fleet.db.engine.database import Database
from fleet.rpc import versions
from tests.functional.manage import Manage
from tests.worlds.conductor import Conductor

pytestmark = pytest.mark.every_database

BUS = "[DEFAULT]\ntransport_url = fake://\n"


@pytest.fixture
def manage(database: Database, tmp_path: pathlib.Path) -> Manage:
    return Manage(database, tmp_path)


def found(manage: Manage, *lines: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """Exit status; what each check has found."""
    manage.configure(manage.url, BUS, *lines)
    status, printed = manage("upgrade", "check", "-f", "json")
    rows = json.loads("\n".join(line for line in printed if not line.startswith("Deprecated")))
    return status, {row["check"]: (row["result"], row["found"]) for row in rows}


def test_all_is_well(database: Database, manage: Manage) -> None:
    """Status 0; schema, options and the three services were looked at."""
    status, checks = found(manage)
    assert (0, {"OK"}) == (status, {result for result, _ in checks.values()})
    daemons = {"fleet-conductor", "fleet-scheduler", "fleet-compute", "fleet-volume"}
    assert {"schema", "services", "options", *daemons} == checks.keys()


def test_a_schema_of_another_release(database: Database, manage: Manage) -> None:
    """Status 2, and what to do."""

    def set_version(value: str) -> None:
        with database.engine.begin() as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = :value"), {"value": value})

    with database.engine.connect() as connection:
        before = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one()
    set_version("0001")
    try:
        status, checks = found(manage)
    finally:
        set_version(before)
    assert 2 == status
    assert ("FAIL", f"the database is at 0001, this release needs {before}") == checks["schema"]


ALIAS = '{"name": "nic", "vendor_id": "8086", "product_id": "1520"}'
SERVICES = [
    ("a filter that is not there", ["scheduler_default_filters = NoFilter"], 2, "fleet-scheduler", "FAIL", "NoFilter"),
    (
        "a driver that is not there",
        ["compute_driver = hyper"],
        2,
        "fleet-compute",
        "FAIL",
        "it is none of fake, libvirt, local",
    ),
    ("no number", ["[conductor]", "workers = many"], 2, "fleet-conductor", "FAIL", "workers"),
    ("an older name", ["[DEFAULT]", f"pci_alias = {ALIAS}"], 1, "options", "WARN", "[DEFAULT] pci_alias"),
]


@pytest.mark.parametrize(
    ("what", "lines", "status", "check", "result", "text"), SERVICES, ids=[case[0] for case in SERVICES]
)
def test_configuration(
    database: Database, manage: Manage, what: str, lines: list[str], status: int, check: str, result: str, text: str
) -> None:
    """What a daemon would not start with is a failure of that daemon; an older name is a warning."""
    ended, checks = found(manage, *lines)
    assert status == ended
    assert result == checks[check][0]
    assert text in checks[check][1]


def test_services_that_are_down(database: Database, manage: Manage) -> None:
    """A warning with their names."""
    conductor = Conductor(database)
    conductor.clock.now = utcnow() - seconds(90)
    conductor.add_host("h1", **versions.spoken("compute"))
    conductor.clock.now = utcnow()
    conductor.add_host("h2", **versions.spoken("compute"))
    status, checks = found(manage)
    assert 1 == status
    assert ("WARN", "1 of 2 services are down: fleet-compute on h1") == checks["services"]


def test_services_of_an_older_release(database: Database, manage: Manage) -> None:
    """A warning with what they speak; one that is down is not counted among them."""
    conductor, newest = Conductor(database), versions.CURRENT["compute"]
    for host, seen_ago_s, spoken in [("h1", 0, "1.0"), ("h2", 0, None), ("h3", 90, "1.0"), ("h4", 0, newest)]:
        conductor.clock.now = utcnow() - seconds(seen_ago_s)
        conductor.add_host(host, rpc_version=spoken, release="0.0.9" if spoken == "1.0" else None)
    status, checks = found(manage)
    older = "fleet-compute on h1 (1.0, release 0.0.9), fleet-compute on h2 (version unknown, release unknown)"
    assert 1 == status
    assert ("WARN", f"2 live services are older than this release: {older}") == checks["versions"]


def test_no_database(manage: Manage) -> None:
    """A failure in a line, and soon."""
    manage.url = "postgresql+psycopg2://nobody@127.0.0.1:1/nothing"
    status, checks = found(manage)
    assert (2, "FAIL") == (status, checks["database"][0])
