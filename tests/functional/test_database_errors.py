# SPDX-License-Identifier: Apache-2.0
"""A failure of the database becomes an error of ours, without statement, parameters or address."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from fleet import errors
from fleet.db.engine.database import Database, Transaction
from fleet.db.tables import models
from tests.clock import FakeClock
from tests.configuration import of_database
from tests.worlds.conductor import Conductor

pytestmark = pytest.mark.every_database

SECRET = "hunter2-planted"
FLAVORS = models.flavors
_BROKEN = "ALTER TABLE instances ADD CONSTRAINT planted CHECK (name <> 'refused')"
_MENDED = "ALTER TABLE instances DROP CONSTRAINT planted"


def _chain(failure: BaseException | None) -> Iterator[BaseException]:
    """The failure and all that hangs on it, shown or not."""
    while failure is not None:
        yield failure
        failure = failure.__cause__ or failure.__context__


def _told(failure: BaseException, caplog: pytest.LogCaptureFixture) -> str:
    """Everything that a log, an answer or a fault could contain of the error."""
    texts = ["".join(traceback.format_exception(each)) + repr(each) + str(vars(each)) for each in _chain(failure)]
    formatter = logging.Formatter("%(message)s")
    return "\n".join([*texts, *(formatter.format(record) for record in caplog.records)])


def _insert_twice(tx: Transaction) -> None:
    for _time in range(2):
        tx.insert(FLAVORS, {"flavorid": SECRET, "name": SECRET, "extra_specs": {}, "created_at": FakeClock()()})


def _no_such_column(tx: Transaction) -> None:
    tx.execute(sa.text("UPDATE flavors SET nowhere = :value"), {"value": SECRET})


@pytest.mark.parametrize("work", [_insert_twice, _no_such_column])
def test_a_refused_statement_leaves_no_value_behind(
    database: Database, work: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither SQLAlchemy's text nor the server's own, which quotes values (DETAIL: Key (name)=(…) already exists)."""
    caplog.set_level(logging.DEBUG)
    with pytest.raises(errors.DatabaseFailed) as failed:
        database.write(work)  # type: ignore[arg-type]

    told = _told(failed.value, caplog)
    assert (False, False) == (SECRET in told, "UPDATE flavors" in told or "INSERT INTO" in told)
    assert not failed.value.retryable


def test_a_reading_leaves_no_value_behind(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    """The same of readers with a connection of their own."""
    caplog.set_level(logging.DEBUG)

    def look(connection: sa.Connection) -> None:
        connection.execute(sa.text("SELECT nowhere FROM flavors WHERE name = :value"), {"value": SECRET})

    for read in (database.read, database.read_once, database.reader(in_snapshot=True).read):
        with pytest.raises(errors.DatabaseFailed) as failed:
            read(look)
        told = _told(failed.value, caplog)
        assert (False, False) == (SECRET in told, "SELECT nowhere" in told)


# SQLite takes no constraint after the table was made.
@pytest.mark.parametrize("opened_database", ["postgresql", "mariadb"], indirect=True)
def test_a_refused_row_is_not_shown(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    """PostgreSQL shows the whole row that a constraint refuses, metadata included."""
    caplog.set_level(logging.DEBUG)
    with database.engine.begin() as connection:
        connection.execute(sa.text(_BROKEN))
    try:
        with pytest.raises(errors.DatabaseFailed) as failed:
            Conductor(database).create(name="refused", metadata={"admin_pass": SECRET})
    finally:
        with database.engine.begin() as connection:
            connection.execute(sa.text(_MENDED))
    told = _told(failed.value, caplog)
    assert SECRET not in told
    # MariaDB gives a number (4025) where PostgreSQL names the constraint.
    assert "planted" in failed.value.message or "code 4025" in failed.value.message


@pytest.mark.parametrize("driver", ["postgresql+psycopg2", "mysql+pymysql"])
def test_a_database_that_is_away_is_named_without_its_password(driver: str, caplog: pytest.LogCaptureFixture) -> None:
    """The server's address is what an operator needs; the error may be tried again."""
    conf = of_database(f"{driver}://fleet:{SECRET}@127.0.0.1:1/fleet")
    conf.set_override("max_retries", 0, "database")
    conf.set_override("db_max_retries", 1, "database")
    conf.set_override("db_retry_interval", 0, "database")
    caplog.set_level(logging.DEBUG)
    with Database(conf).disposed() as database, pytest.raises(errors.DatabaseUnavailable) as failed:
        database.read(lambda connection: None)

    assert SECRET not in _told(failed.value, caplog)
    assert "127.0.0.1" in failed.value.message
    assert failed.value.retryable


def test_a_url_that_is_none_is_refused_without_it() -> None:
    """The option is named; its value may hold a password."""
    conf = of_database(f"postgresql//fleet:{SECRET}@db/fleet")
    with pytest.raises(errors.ConfigError, match=r"\[database\] connection") as refused:
        Database(conf)
    assert SECRET not in "".join(traceback.format_exception(refused.value))
