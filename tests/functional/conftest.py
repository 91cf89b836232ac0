# SPDX-License-Identifier: Apache-2.0
"""``database`` runs a test once per engine; ``conductor`` is a whole conductor over it.

``make test`` tests each on one of the three engines, always on the same one, most of them on SQLite; ``make long`` tests
them on the other two. ``make test`` tests what has the mark ``every_database`` on all three, for it is about differences
between them, and what has the mark ``on_sqlite`` on SQLite alone. ``make shake`` tests each on one engine a round, any of
the three.
"""

from __future__ import annotations

import os
import pathlib
import zlib
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from fleet import failpoints
from fleet.db.engine.database import Database
from tests.factories import NOW
from tests.functional import databases, nova_schema
from tests.functional.nova_schema import Databases
from tests.shared_servers import create_database, drop_database
from tests.unordered_statements import Watch
from tests.worlds.conductor import Conductor

SERVERS = ("postgresql", "mariadb")
#: Fixtures with an engine as their parameter.
_ENGINES = ("opened_database", "nova_url")
#: Seed of a round of ``make shake``.
_SHAKEN = os.environ.get("FLEET_SHAKE_SEED", "")
#: The engines of the tests, by their names.
SHARES = ("sqlite", *SERVERS) if _SHAKEN else (*["sqlite"] * 8, *SERVERS)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _is_long(item):
            item.add_marker("long")


def _is_long(item: pytest.Item) -> bool:
    """Return True if the test is for ``make long`` because of its database."""
    callspec = getattr(item, "callspec", None)
    engine = next((callspec.params[each] for each in _ENGINES if each in callspec.params), None) if callspec else None
    if engine is None:
        return False
    if item.get_closest_marker("on_sqlite") is not None:
        return engine != "sqlite"
    if item.get_closest_marker("every_database") is not None:
        return False
    return engine != SHARES[zlib.crc32(f"{_SHAKEN}{item.nodeid.replace(engine, '')}".encode()) % len(SHARES)]


@pytest.fixture(scope="session")
def ledgers() -> dict[str, Database]:
    """Those that were opened, by engine: the engine changes with each file of tests, and a schema takes a second."""
    return {}


@pytest.fixture(scope="session", params=["sqlite", *SERVERS])
def opened_database(
    request: pytest.FixtureRequest, ledgers: dict[str, Database], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    engine = request.param
    if engine not in ledgers:
        path = tmp_path_factory.mktemp("ledger") / "fleet.db"
        url = f"sqlite:///{path}" if engine == "sqlite" else request.getfixturevalue(f"{engine}_url")
        ledgers[engine] = databases.open_database(url)
    with ledgers[engine].disposed() as database:
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
        with databases.beside(databases.url_of(opened_database)) as url:
            yield url


@pytest.fixture
def points(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """The file that arms this process; failpoints have no effect before the file orders it."""

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
    made.add_hosts(getattr(request.module, "HOSTS", ("h1",)))
    return made


@pytest.fixture(scope="session", params=["sqlite", *SERVERS])
def nova_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database in which nova's tables can be made."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('nova')}/nova.db"
        yield url
        nova_schema.engine(url).dispose()
        return
    server = request.getfixturevalue(f"{request.param}_url")
    url = create_database(server, "nova_cell")
    yield url
    nova_schema.engine(url).dispose()
    drop_database(url, server)


@pytest.fixture
def nova(nova_url: str) -> Databases:
    """The tables of nova and placement, with two hosts that placement does not have."""
    found = Databases(nova_url)
    found.create()
    for number in (1, 2):
        found.add_host(number, NOW)
    return found
