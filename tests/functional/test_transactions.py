# SPDX-License-Identifier: Apache-2.0
"""What a writing transaction promises, on every engine."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from fleet.db.connection import idle_ping
from fleet.db.engine.database import Database, Transaction
from fleet.db.hosts import hosts, services
from fleet.db.tables import models
from fleet.objects import HostReport
from tests.clock import FakeClock

pytestmark = pytest.mark.every_database

CLOCK = FakeClock()
SERVICES = models.services
FLAVORS = models.flavors
PROJECTS = models.flavor_projects
_PROJECTS = sa.select(PROJECTS).order_by(PROJECTS.c.flavor_id, PROJECTS.c.project_id)


@pytest.fixture
def key(database: Database) -> int:
    database.write(services.register, {"host": "h1", "binary": "fleet-compute", "topic": "compute"}, CLOCK(), 60)
    return _row(database).id


def _row(database: Database) -> Any:
    return database.read(lambda connection: connection.execute(sa.select(SERVICES)).one())


def _generation(database: Database) -> int:
    return database.read(lambda connection: connection.execute(sa.select(models.generations.c.value)).scalar_one())


def _change(tx: Transaction, key: int, topic: str) -> None:
    tx.execute(sa.select(SERVICES.c.id).where(SERVICES.c.id == key).with_for_update()).one()
    tx.defer_update(SERVICES, key, {"topic": topic})


def test_a_change_carries_its_stamp(database: Database, key: int) -> None:
    """The row has what was set, and the transaction's generation."""
    database.write(_change, key, "new")

    found = _row(database)
    assert ("new", _generation(database)) == (found.topic, found.generation)


def test_a_change_is_seen_by_what_follows_in_the_transaction(database: Database, key: int) -> None:
    """A later read sees it, although it may be deferred until the stamp."""

    def work(tx: Transaction) -> str:
        _change(tx, key, "first")
        tx.defer_update(SERVICES, key, {"topic": "second"})
        return tx.execute(sa.select(SERVICES.c.topic)).scalar_one()

    assert "second" == database.write(work)
    found = _row(database)
    assert ("second", _generation(database)) == (found.topic, found.generation)


@pytest.mark.parametrize("rows", [1, 2, 8, 9, 20])
def test_changes_of_many_rows_are_one_generation(database: Database, rows: int) -> None:
    """However many the last statement takes; each row has what was set on it, and what was inserted is in its order."""
    for number in range(rows):
        service = {"host": f"h{number:02}", "binary": "fleet-compute", "topic": "compute"}
        database.write(services.register, service, CLOCK(), 60)
    before = _generation(database)

    def work(tx: Transaction) -> None:
        found = tx.execute(sa.select(SERVICES.c.id, SERVICES.c.host).order_by(SERVICES.c.id).with_for_update()).all()
        for row in found:
            tx.defer_update(SERVICES, row.id, {"topic": f"of {row.host}"})
            tx.defer_update(SERVICES, row.id, {"hostname": row.host})
            tx.defer_insert(FLAVORS, _flavor(row.host))

    database.write(work)
    changed = database.read(lambda connection: connection.execute(sa.select(SERVICES).order_by(SERVICES.c.id)).all())
    assert [(f"of h{number:02}", f"h{number:02}", before + 1) for number in range(rows)] == [
        (row.topic, row.hostname, row.generation) for row in changed
    ]
    assert before + 1 == _generation(database)
    assert [f"h{number:02}" for number in range(rows)] == [name for name, _specs in database.read(_flavors)]


def _flavor(name: str) -> dict[str, Any]:
    return {"flavorid": name, "name": name, "extra_specs": {"of": name}, "created_at": CLOCK()}


def _flavors(connection: Any) -> list[tuple[str, dict[str, str]]]:
    query = sa.select(FLAVORS.c.name, FLAVORS.c.extra_specs).order_by(FLAVORS.c.id)
    return [(name, specs) for name, specs in connection.execute(query)]


@pytest.mark.parametrize("touching", ["nothing", "a changed row", "rows of two tables"])
def test_what_is_inserted_last_is_there(database: Database, key: int, touching: str) -> None:
    """In its order, with whatever else the transaction has to write at its end; and the stamps are one."""
    host = {"host": "h1", "vcpus": 1, "memory_mb": 1, "local_gb": 1, "node": "n1"}
    database.write(hosts.report, HostReport.from_wire(host), CLOCK())

    def work(tx: Transaction) -> None:
        if touching == "a changed row":
            _change(tx, key, "new")
        if touching == "rows of two tables":
            nodes = tx.execute(sa.select(models.compute_nodes.c.id)).scalars().all()
            tx.touch(models.compute_nodes, *nodes)
            tx.touch(SERVICES, key)
        tx.defer_insert(FLAVORS, _flavor("one"))
        tx.defer_insert(FLAVORS, _flavor("two"))

    database.write(work)
    assert [("one", {"of": "one"}), ("two", {"of": "two"})] == database.read(_flavors)
    if touching != "nothing":
        assert _generation(database) == _row(database).generation
    if touching == "rows of two tables":
        node = database.read(lambda connection: connection.execute(sa.select(models.compute_nodes)).one())
        assert _generation(database) == node.generation


def test_what_is_inserted_last_is_seen_by_what_follows(database: Database) -> None:
    """A later read in the transaction sees rows whose INSERT was deferred."""

    def work(tx: Transaction) -> list[tuple[str, dict[str, str]]]:
        tx.defer_insert(FLAVORS, _flavor("one"))
        return _flavors(tx)

    assert [("one", {"of": "one"})] == database.write(work)


@pytest.mark.parametrize("last", ["the end", "a statement"])
def test_what_refers_to_another_row_is_inserted_after_it(database: Database, last: str) -> None:
    """Also if the rows of a table have different columns, or rows that refer to them were deferred first.

    Builds with and without addresses share a transaction: the rows of their instances have different columns.
    """

    def work(tx: Transaction) -> None:
        for key, columns in enumerate(({}, {"description": "of other columns"}, {}), 2):
            tx.defer_insert(PROJECTS, {"flavor_id": key - 1, "project_id": "first"})
            tx.defer_insert(FLAVORS, {"id": key, **_flavor(str(key)), **columns})
            tx.defer_insert(PROJECTS, {"flavor_id": key, "project_id": "last"})
        if last == "a statement":
            tx.execute(sa.select(models.generations.c.value))

    database.write(lambda tx: tx.defer_insert(FLAVORS, {"id": 1, **_flavor("1")}))
    database.write(work)
    found = database.read(lambda connection: connection.execute(_PROJECTS).all())
    expected = [(1, "first"), (2, "first"), (2, "last"), (3, "first"), (3, "last"), (4, "last")]
    assert expected == [tuple(row) for row in found]


_WHO_AND_END = {
    "postgresql": ("SELECT pg_backend_pid()", "SELECT pg_terminate_backend({})"),
    "mysql": ("SELECT CONNECTION_ID()", "KILL {}"),
    "mariadb": ("SELECT CONNECTION_ID()", "KILL {}"),
}


# SQLite has no server that could close a connection.
@pytest.mark.parametrize("opened_database", ["postgresql", "mariadb"], indirect=True)
@pytest.mark.parametrize("rested_s", [3600.0, -1.0], ids=["used a moment ago", "rested"])
def test_a_lost_connection_fails_no_transaction(
    database: Database, key: int, rested_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be noticed by a ping before its use, or by its use."""
    monkeypatch.setattr(idle_ping, "RESTED_S", rested_s)
    who, end = _WHO_AND_END[database.engine.dialect.name]
    database.engine.dispose()  # with a second connection in the pool, another test would meet the lost one
    with database.engine.connect() as connection:
        pooled = connection.scalar(sa.text(who))
    with sa.create_engine(database.engine.url, poolclass=sa.NullPool).connect() as other:
        other.execute(sa.text(end.format(pooled)))

    database.write(_change, key, "after")

    assert "after" == _row(database).topic
    with database.engine.connect() as connection:
        assert pooled != connection.scalar(sa.text(who))


_LEVEL = {
    "postgresql": "SHOW transaction_isolation",
    "mysql": "SELECT @@session.tx_isolation",
}


def test_writers_need_no_statement_for_their_isolation_level(database: Database) -> None:
    """A writer sees the newest commits and a reader one snapshot, whoever has used the connection before."""
    if database.dialect not in _LEVEL:
        pytest.skip("SQLite has one level")
    level = sa.text(_LEVEL[database.dialect])
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        sent.append(statement)

    def writer() -> str:
        return database.write(lambda tx: tx.execute(level).scalar_one()).lower().replace("-", " ")

    def reader() -> str:
        return database.read(lambda connection: connection.execute(level).scalar_one()).lower().replace("-", " ")

    assert ["read committed", "repeatable read"] * 2 == [writer(), reader(), writer(), reader()]
    sa.event.listen(database.engine, "before_cursor_execute", note)
    try:
        assert database._for_writing() is database.engine
        writer()
    finally:
        sa.event.remove(database.engine, "before_cursor_execute", note)
    assert [_LEVEL[database.dialect]] == sent


def test_rows_of_all_kinds_go_with_the_last_statement(database: Database, key: int) -> None:
    """Text with quotes, an empty value, a moment, a flag and JSON arrive as they would have in statements of their own."""
    odd = {"topic": 'it\'s "odd" \\ ünïcode :x %(y)s', "disabled": True, "disabled_reason": None, "started_at": CLOCK()}

    def work(tx: Transaction) -> None:
        tx.execute(sa.select(SERVICES.c.id).where(SERVICES.c.id == key).with_for_update()).one()
        tx.defer_update(SERVICES, key, odd)
        tx.defer_insert(FLAVORS, {**_flavor("odd"), "extra_specs": {"a": "it's", "b": "ü :x"}})

    database.write(work)
    found = _row(database)
    assert odd == {name: getattr(found, name) for name in odd}
    assert _generation(database) == found.generation
    flavors = database.read(lambda connection: connection.execute(sa.select(FLAVORS)).all())
    assert [("odd", {"a": "it's", "b": "ü :x"})] == [(row.name, row.extra_specs) for row in flavors]
