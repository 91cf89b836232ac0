# SPDX-License-Identifier: Apache-2.0
"""Sessions to a PostgreSQL primary that was replaced, and commits that wait for a standby."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import options as database_options

from fleet.db.connection import options
from fleet.db.engine.database import Database, Transaction
from fleet.db.tables import models
from tests import clusters
from tests.amqp.daemons import eventually
from tests.conftest import started
from tests.ha.keeper import kept

_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture(scope="module")
def cluster() -> Iterator[clusters.PostgreSQLCluster]:
    for made in started(clusters.postgresql_cluster):
        with kept(made.nodes):
            yield made


@pytest.fixture
def ledger(cluster: clusters.PostgreSQLCluster) -> Iterator[Database]:
    hosts = "&".join(f"host={node.place.directory}:{node.port}" for node in cluster.nodes)
    url = f"postgresql+psycopg2://fleet@/fleet?{hosts}&target_session_attrs=read-write"
    conf = cfg.ConfigOpts()
    database_options.set_defaults(conf, connection=url)
    options.register_limits(conf)
    conf([])
    for name, value in {"connect_timeout": 2, "peer_timeout": 4, "statement_timeout": 1}.items():
        conf.set_override(name, value, "database")
    with Database(conf).disposed() as database:
        models.METADATA.create_all(database.engine)
        database.write(first)
        yield database


def first(tx: Transaction) -> None:
    generations = models.generations
    if not tx.execute(sa.select(generations.c.id)).all():
        tx.execute(generations.insert(), {"id": 1, "value": 1})


def write(tx: Transaction) -> str:
    """A change of a row; returns the name of the server that has it."""
    tx.execute(models.generations.update().values(value=models.generations.c.value + 1))
    return str(tx.execute(sa.text("SELECT current_setting('cluster_name')")).scalar_one())


def test_a_time_limit_does_not_end_the_wait_for_a_standby(
    cluster: clusters.PostgreSQLCluster, ledger: Database
) -> None:
    """A commit that no standby has is not acknowledged, however long it takes."""
    standbys = cluster.standbys
    for node in standbys:
        node.kill()
    done = threading.Event()

    def run() -> None:
        ledger.write(write)
        done.set()

    waiting = threading.Thread(target=run)
    waiting.start()
    eventually(lambda: cluster.primary.value(_WAITING))
    # statement_timeout is 1 s.
    assert not done.wait(5)
    for node in standbys:
        node.start()
    waiting.join(120)
    assert done.is_set()
    cluster.wait_for_followers()


def test_a_primary_that_was_replaced_and_comes_back(cluster: clusters.PostgreSQLCluster, ledger: Database) -> None:
    """It is the first of the URL, and accepts sessions; transactions run on the new primary."""
    old = cluster.nodes[0]
    assert old.name == ledger.write(write)
    old.hang()
    new = cluster.fail_over()
    old.resume()
    eventually(lambda: new.name == ledger.write(write))
    with ledger.engine.connect() as one, ledger.engine.connect() as two, ledger.engine.connect() as three:
        names = [each.scalar(sa.text("SELECT current_setting('cluster_name')")) for each in (one, two, three)]
    assert [new.name] * 3 == names
    cluster.rejoin(old)
