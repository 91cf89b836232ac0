# SPDX-License-Identifier: Apache-2.0
"""Transactions on several nodes of a Galera cluster, and on nodes that leave it."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from concurrent import futures

import pytest
import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import options as database_options

from fleet import errors
from fleet.db.connection import idle_ping, options
from fleet.db.engine.database import Database, Transaction
from fleet.db.hosts import services
from fleet.db.schema import migration
from fleet.db.tables import models
from fleet.telemetry import metrics
from fleet_trial import private_servers
from tests import clusters
from tests.amqp.daemons import Trio, eventually, running
from tests.clock import FakeClock
from tests.conftest import started
from tests.ha.keeper import kept
from tests.invariants import moment
from tests.invariants.ledger import Ledger, open_engine

SERVICES = models.services


@pytest.fixture(scope="module")
def cluster() -> Iterator[clusters.GaleraCluster]:
    for made in started(clusters.galera_cluster):
        with kept(made.nodes):
            with opened(made.nodes[0]) as database:
                migration.sync(database)
                database.write(services.register, {"host": "h", "binary": "b", "topic": "t"}, FakeClock()(), 60)
            yield made


@contextlib.contextmanager
def opened(node: clusters.GaleraNode, **limits: int) -> Iterator[Database]:
    conf = cfg.ConfigOpts()
    database_options.set_defaults(conf, connection=node.url())
    options.register_limits(conf)
    conf([])
    for name, value in limits.items():
        conf.set_override(name, value, "database")
    with Database(conf).disposed() as database:
        yield database


def conflicts() -> float:
    return metrics.DATABASE_RETRIES.labels("DBDeadlock")._value.get()


def test_writers_on_two_nodes(cluster: clusters.GaleraCluster) -> None:
    """A transaction that meets another node's commit runs again and is counted: both are done, once each."""
    with opened(cluster.nodes[0]) as one, opened(cluster.nodes[1]) as two:
        before, counted, runs = conflicts(), one.write(count), list[int]()

        def count_between(tx: Transaction) -> int:
            runs.append(count(tx))
            if len(runs) == 1:
                two.write(count)
            return runs[-1]

        assert counted + 2 == one.write(count_between)
    assert [counted + 1, counted + 2] == runs
    assert before + 1 == conflicts()


def test_a_node_without_its_cluster(cluster: clusters.GaleraCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sessions count as lost, whichever statement it refuses; they work again when it is back.

    In a session that was opened before, it answers a query that reads no table.
    """
    monkeypatch.setattr(idle_ping, "RESTED_S", 3600)
    node = cluster.nodes[0]
    with opened(node, db_max_retries=0) as database:
        database.write(count)
        node.cut_off()
        eventually(lambda: is_refused(node))
        acts: list[Callable[[], object]] = [lambda: database.write(count), lambda: database.read(look), database.ping]
        for act in [*acts[::-1], *acts, acts[0]]:
            with pytest.raises(errors.DatabaseUnavailable) as refused:
                act()
            print(refused.value.kind, refused.value)
            assert "DBConnectionError" == refused.value.kind
        node.bring_back()
        cluster.wait_for_members()
        database.write(count)
        database.ping()


def is_refused(node: clusters.GaleraNode) -> bool:
    """True once the node has noticed that it is alone."""
    try:
        node.status("wsrep_ready")
    except sa.exc.OperationalError:
        return True
    return False


def count(tx: Transaction) -> int:
    """Return the number of times that this was done."""
    row = tx.execute(sa.select(SERVICES.c.id, SERVICES.c.report_count).with_for_update()).one()
    tx.update(SERVICES, row.id, {"report_count": row.report_count + 1})
    tx.touch(SERVICES, row.id)
    return int(row.report_count + 1)


def look(connection: sa.Connection) -> int:
    return int(connection.execute(sa.select(SERVICES.c.report_count)).scalar_one())


def test_conductors_on_two_nodes(
    cluster: clusters.GaleraCluster, broker: private_servers.RabbitMQ, tmp_path: pathlib.Path
) -> None:
    """Every build ends ACTIVE on one host, and hosts count what their instances claim."""
    other = tmp_path / "other.conf"
    other.write_text(f"[database]\nconnection = {cluster.nodes[1].url('two')}\n")
    cluster.nodes[0].execute("CREATE DATABASE two")
    with running(Trio(tmp_path, broker.vhost("galera"), cluster.nodes[0].url("two"))) as trio:
        trio.manage("db", "sync")
        trio.start("conductor", "fleet-conductor")
        trio.start("conductor-2", "fleet-conductor", "--config-file", str(other))
        trio.start("scheduler", "fleet-scheduler")
        trio.start("agent", "fleet-compute", "--hosts", "a[1-3]")
        trio.wait_for_hosts(3)
        trio.wait_for_service("fleet-scheduler")
        with futures.ThreadPoolExecutor(4) as clients:
            booted = [clients.submit(trio.boot, name=f"n{number}", count=2) for number in range(12)]
        promised = [uuid for each in booted for uuid in each.result()]
        ended = trio.wait_for(promised, "active", "error")
        ledger = Ledger.read(open_engine(cluster.nodes[2].url("two")))
    assert dict.fromkeys(promised, "active") == ended
    assert len(promised) == len(ledger.live)
    assert [] == [line for _number, check in moment.CHECKS for line in check(ledger)]
