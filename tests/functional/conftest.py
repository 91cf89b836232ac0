# SPDX-License-Identifier: Apache-2.0
"""``database`` runs a test once per engine; ``conductor`` is a whole conductor over it.

``make test`` tests a file on SQLite and on one of the two servers, half of the files on each, and ``make long`` on the other
one. Files about what the engines do differently have the mark ``every_database``: ``make test`` tests them on all three.
"""

from __future__ import annotations

import pathlib
import zlib
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from fleet import failpoints
from fleet.db.engine.database import Database
from tests.factories import NOW
from tests.functional import databases, nova_schema
from tests.functional.nova_schema import Databases
from tests.unordered_statements import Watch
from tests.worlds.conductor import Conductor

SERVERS = ("postgresql", "mariadb")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _is_long(item):
            item.add_marker("long")


def _is_long(item: pytest.Item) -> bool:
    """Return True if the test is for ``make long`` because of its database."""
    callspec = getattr(item, "callspec", None)
    server = callspec.params.get("opened_database") if callspec is not None else None
    if server not in SERVERS:
        return False
    long_on = item.get_closest_marker("long_on")
    if long_on is not None and server in long_on.args:
        return True
    file = item.nodeid.partition("::")[0]
    of_file = SERVERS[zlib.crc32(file.encode()) % len(SERVERS)]
    return server != of_file and item.get_closest_marker("every_database") is None


@pytest.fixture(scope="session", params=["sqlite", *SERVERS])
def opened_database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('ledger')}/fleet.db"
    else:
        url = request.getfixturevalue(f"{request.param}_url")
    with databases.open_database(url).disposed() as database:
        yield database


@pytest.fixture(scope="session", autouse=True)
def no_order_is_met() -> Iterator[None]:
    """A statement whose rows come in any order fails its test, unless there is a reason why that decides nothing."""
    with Watch():
        yield


@pytest.fixture
def database(opened_database: Database) -> Database:
    """An empty ledger at the newest schema."""
    databases.empty(opened_database)
    return opened_database


@pytest.fixture
def bare_url(opened_database: Database, tmp_path: pathlib.Path) -> Iterator[str]:
    """The URL of a database without a schema."""
    if opened_database.dialect == "sqlite":
        yield f"sqlite:///{tmp_path}/bare.db"
    else:
        with databases.beside(opened_database.engine.url) as url:
            yield url


@pytest.fixture
def points(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """The file that arms this process."""

    def arm(lines: str) -> None:
        conf = cfg.ConfigOpts()
        failpoints.register_opts(conf)
        (tmp_path / "fleet.conf").write_text(f"[failpoints]\n{lines}\n")
        conf(["--config-file", str(tmp_path / "fleet.conf")])
        failpoints.arm(conf)

    arm(f"enabled = true\nfile = {tmp_path}/points.json")
    yield tmp_path / "points.json"
    arm("")


@pytest.fixture
def conductor(request: pytest.FixtureRequest, database: Database) -> Conductor:
    """A conductor with the hosts that the module names in HOSTS, or with h1."""
    made = Conductor(database)
    for host in getattr(request.module, "HOSTS", ("h1",)):
        made.add_host(host)
    return made


@pytest.fixture(scope="session", params=["sqlite", *SERVERS])
def nova_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database in which nova's tables can be made."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('nova')}/nova.db"
    else:
        url = _database_of_nova(request.getfixturevalue(f"{request.param}_url"))
    yield url
    nova_schema.engine(url).dispose()


def _database_of_nova(url: str) -> str:
    server = sa.make_url(url)
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.execute(sa.text("DROP DATABASE IF EXISTS nova_cell"))
        connection.execute(sa.text("CREATE DATABASE nova_cell"))
    return server.set(database="nova_cell").render_as_string(hide_password=False)


@pytest.fixture
def nova(nova_url: str) -> Databases:
    """The tables of nova and placement, with two hosts that placement does not have."""
    found = Databases(nova_url)
    found.create()
    for number in (1, 2):
        found.add_host(number, NOW)
    return found
