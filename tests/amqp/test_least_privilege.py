# SPDX-License-Identifier: Apache-2.0
"""The daemons as a careful operator runs them: each with a database role that allows what it must do, and no more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from fleet.cli.private_servers import RabbitMQ
from tests.amqp.daemons import Trio, running
from tests.amqp.invariants import violations

NAME = "least_privilege"
ROLES = {"conductor": "lp_conductor", "scheduler": "lp_scheduler"}


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory, postgresql_url: str, broker: RabbitMQ) -> Iterator[Trio]:
    """Two agents of one host each."""
    directory = tmp_path_factory.mktemp(NAME)
    owner = sa.make_url(postgresql_url).set(database=NAME)
    execute(sa.make_url(postgresql_url), f"CREATE DATABASE {NAME}")
    with running(Trio(directory, broker.vhost(NAME), owner.render_as_string(hide_password=False))) as trio:
        trio.manage("db", "sync")
        names = [f"--{service}={role}" for service, role in ROLES.items()]
        printed = trio.manage("db", "grants", f"--database={NAME}", *names)
        execute(owner, *(f"CREATE USER {role}" for role in ROLES.values()), *printed.splitlines())
        for service, role in ROLES.items():
            path = directory / f"{service}.conf"
            connection = owner.set(username=role).render_as_string(hide_password=False)
            path.write_text(f"[database]\nconnection = {connection}\n")
            trio.start(service, f"fleet-{service}", "--config-file", str(path))
        for host in ("h1", "h2"):
            trio.start(host, "fleet-compute", "--hosts", host)
        trio.wait_for_hosts(2)
        trio.wait_for_service("fleet-scheduler")
        yield trio


def execute(url: sa.URL, *statements: str) -> None:
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def test_builds_succeed(trio: Trio) -> None:
    """Request to ACTIVE on every host, and gone again; nobody was denied anything that it needs."""
    uuids = trio.boot(name="web", count=4)
    assert {"active"} == set(trio.wait_for(uuids, "active", "error").values())
    assert {"h1", "h2"} == {trio.show(uuid)["instance"]["host"] for uuid in uuids}
    assert [] == violations(trio)
    assert [] == [name for name in trio.names() if "denied" in trio.log(name) or "Traceback" in trio.log(name)]
