# SPDX-License-Identifier: Apache-2.0
"""The private PostgreSQL server can be killed, and started again at once."""

from __future__ import annotations

import psutil
import pytest
import sqlalchemy as sa

from fleet.db.engine import statements
from fleet_trial import private_servers
from tests.conftest import started


@pytest.fixture
def server():
    yield from started(private_servers.postgresql_server)


def test_no_process_outlives_a_kill(server: private_servers.PostgreSQL) -> None:
    """A server that finds a process of the killed one refuses to start on its data."""
    engine = sa.create_engine(server.url(), isolation_level="AUTOCOMMIT")
    connections = [engine.connect() for _number in range(5)]
    backends = [each.scalar(sa.text("SELECT pg_backend_pid()")) for each in connections]
    server.kill()
    assert not any(map(_runs, backends))
    server.start()
    assert statements.answers(server.url())
    for each in connections:
        each.invalidate()
    engine.dispose()


def _runs(pid: int) -> bool:
    """Whether a process has not ended; init may not have collected it yet."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
