# SPDX-License-Identifier: Apache-2.0
"""Real daemons on a cluster of database servers whose writer is killed; a part of ``make long``."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator

import oslo_messaging
import pytest

from fleet import errors
from fleet_trial import private_servers
from tests import clusters
from tests.amqp.daemons import Trio, eventually, running
from tests.chaos.database_clusters import GaleraDatabase, PostgreSQLDatabase
from tests.conftest import started
from tests.ha.keeper import kept

pytestmark = pytest.mark.long

#: What a client gets that should ask again.
AWAY = (oslo_messaging.MessagingException, errors.DatabaseError)


@pytest.fixture
def postgresql() -> Iterator[PostgreSQLDatabase]:
    for cluster in started(clusters.postgresql_cluster):
        with contextlib.ExitStack() as held:
            held.enter_context(kept(cluster.nodes))
            yield PostgreSQLDatabase(cluster, held)


@pytest.fixture
def galera() -> Iterator[GaleraDatabase]:
    for cluster in started(clusters.galera_cluster):
        with contextlib.ExitStack() as held:
            held.enter_context(kept(cluster.nodes))
            yield GaleraDatabase(cluster, held)


@contextlib.contextmanager
def fleet(directory: pathlib.Path, transport_url: str, database_url: str) -> Iterator[Trio]:
    with running(Trio(directory, transport_url, database_url)) as trio:
        trio.manage("db", "sync")
        trio.start("conductor", "fleet-conductor")
        trio.start("scheduler", "fleet-scheduler")
        trio.start("agent", "fleet-compute", "--hosts", "a[1-3]")
        trio.wait_for_hosts(3)
        trio.wait_for_service("fleet-scheduler")
        yield trio


def goes_on(trio: Trio, lose_the_writer: Callable[[], object]) -> None:
    """Every build ends that was promised before and after, on the server that takes the place of the lost one."""
    promised = trio.boot(name="before", count=3)
    lose_the_writer()
    promised += eventually(lambda: trio.boot(name="after", count=3), retry_on=AWAY)
    states = eventually(lambda: trio.wait_for(promised, "active", "error"), retry_on=AWAY)
    assert dict.fromkeys(promised, "active") == states


def test_a_standby_is_promoted(
    postgresql: PostgreSQLDatabase, broker: private_servers.RabbitMQ, tmp_path: pathlib.Path
) -> None:
    def lose_the_writer() -> None:
        postgresql.end(postgresql.cluster.primary)
        postgresql.fail_over()

    with fleet(tmp_path, broker.vhost("postgresql-cluster"), postgresql.daemons_url("secret")) as trio:
        goes_on(trio, lose_the_writer)


def test_the_address_leads_to_another_galera_node(
    galera: GaleraDatabase, broker: private_servers.RabbitMQ, tmp_path: pathlib.Path
) -> None:
    def lose_the_writer() -> None:
        galera.node.kill()
        galera.follow(galera.others[0])

    with fleet(tmp_path, broker.vhost("galera-cluster"), galera.daemons_url("secret")) as trio:
        goes_on(trio, lose_the_writer)
