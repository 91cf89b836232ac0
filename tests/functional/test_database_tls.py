# SPDX-License-Identifier: Apache-2.0
"""TLS to the database: a trusted authority must sign its certificate, and the certificate must name its host."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
import trustme
from oslo_config import cfg

from fleet.db.schema import schema
from fleet_cli.base import application
from fleet_cli.health import doctor
from fleet_trial import private_servers
from tests.functional.databases import open_database
from tests.functional.manage import Manage

RIGHT, WRONG = "localhost", "elsewhere.example"
#: What the URL gets for an authority, by driver.
TRUST = {
    "postgresql": lambda ca: {"sslmode": "verify-full", "sslrootcert": ca},
    "mysql": lambda ca: {"ssl_ca": ca},
}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module", params=[RIGHT, WRONG])
def server(request: pytest.FixtureRequest, engine: str, authority: trustme.CA) -> Iterator[tuple[str, sa.URL]]:
    """A database on localhost with a certificate for the host of the parameter."""
    issued = authority.issue_cert(request.param)
    chain = "".join(pem.bytes().decode() for pem in issued.cert_chain_pems)
    certificate = private_servers.Certificate(chain, issued.private_key_pem.bytes().decode())
    try:
        with _started(engine, certificate) as url:
            yield request.param, sa.make_url(url)
    except private_servers.ServerMissing as missing:
        if os.environ.get("CI") == "true" or os.environ.get("FLEET_REQUIRE_SERVERS") == "1":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@contextlib.contextmanager
def _started(engine: str, certificate: private_servers.Certificate) -> Iterator[str]:
    if engine == "mariadb":
        with private_servers.mariadb(certificate) as url:
            yield url
    else:
        with private_servers.postgresql_server(certificate) as server:
            yield f"postgresql+psycopg2://fleet:fleet@localhost:{server.port}/fleet"


def trusting(url: sa.URL, directory: pathlib.Path, authority: trustme.CA) -> str:
    """``url`` with the options that operators write, for this authority."""
    file = directory / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    return url.update_query_dict(TRUST[url.get_backend_name()](str(file))).render_as_string(hide_password=False)


def doctor_says(url: str, directory: pathlib.Path) -> tuple[str, str]:
    """Result and finding of the check ``database`` of ``fleet doctor``, without a conductor."""
    config = directory / "fleet.conf"
    config.write_text(f"[database]\nconnection = {url}\n")
    conf = cfg.ConfigOpts()
    application.load([str(config)], "fleet", conf)
    found = doctor.trust(conf)
    return (found[0].level.name, found[0].found) if found else ("OK", "")


def test_only_the_right_database_is_talked_to(
    tmp_path: pathlib.Path, server: tuple[str, sa.URL], authority: trustme.CA
) -> None:
    """A certificate for another host, or of an unknown authority, is refused. Tools and doctor name the reason."""
    host, url = server
    trusted = trusting(url, tmp_path, authority)
    if host == RIGHT:
        with open_database(trusted).disposed() as database:
            schema.check(database)
        assert ("OK", "") == doctor_says(trusted, tmp_path)
        # The same file, with another authority in it.
        refused, reason = trusting(url, tmp_path, trustme.CA()), "certificate verify failed"
    else:
        postgresql = url.get_backend_name() == "postgresql"
        refused, reason = trusted, "does not match host name" if postgresql else "Hostname mismatch"
    manage = Manage(refused, tmp_path)
    result, found = doctor_says(refused, tmp_path)
    assert ("FAIL", True) == (result, reason in found), found
    status, printed = manage("db", "check")
    assert (1, True) == (status, any(reason in line and "[database] connection" in line for line in printed)), printed
    status, printed = manage("upgrade", "check", "-f", "json")
    rows = {row["check"]: row for row in json.loads("\n".join(line for line in printed if not line.startswith("Dep")))}
    assert ("FAIL", True) == (rows["database"]["result"], reason in rows["database"]["found"])
