# SPDX-License-Identifier: Apache-2.0
"""``trio``: one conductor, one scheduler, two agents of three hosts each, running for the whole session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.amqp.daemons import Trio, eventually, running

HOSTS = 6


@pytest.fixture(scope="session")
def ledger_url(postgresql_url: str) -> str:
    """A database that no other suite uses."""
    server = sa.make_url(postgresql_url)
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.execute(sa.text("CREATE DATABASE trio"))
    return server.set(database="trio").render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def trio(tmp_path_factory: pytest.TempPathFactory, rabbitmq_url: str, ledger_url: str) -> Iterator[Trio]:
    directory = tmp_path_factory.mktemp("trio")
    with running(Trio(directory, rabbitmq_url, ledger_url, fake="spawn_delay = 0.5\n")) as trio:
        trio.manage("db", "sync")
        trio.start("conductor", "fleet-conductor")
        trio.start("scheduler", "fleet-scheduler")
        trio.start("agent-a", "fleet-compute", "--hosts", "a[1-3]")
        trio.start("agent-b", "fleet-compute", "--hosts", "b[1-3]")
        trio.wait_for_hosts(HOSTS)
        trio.wait_for_service("fleet-scheduler")
        yield trio


@pytest.fixture(autouse=True)
def empty_hosts(trio: Trio) -> Iterator[None]:
    """Each test leaves nothing behind."""
    yield
    left = [instance["uuid"] for instance in trio.operator("list_instances")]
    if left:
        trio.terminate(left)
        eventually(lambda: not trio.operator("list_instances"), timeout_s=60)
