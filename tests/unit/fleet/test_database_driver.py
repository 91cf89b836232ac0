# SPDX-License-Identifier: Apache-2.0
"""A database driver that is not installed is named with the extra that brings it."""

from __future__ import annotations

import sys

import pytest

from fleet import errors
from fleet.db.connection import driver, tls
from fleet.db.nova.database import NovaDatabase

MISSING = [
    ("postgresql+psycopg2://a:b@h/x", "psycopg2", "pip install '.[postgresql]' in the directory of the source"),
    ("mysql+pymysql://a:b@h/x", "pymysql", "pip install '.[mariadb]' in the directory of the source"),
]


@pytest.mark.parametrize(("url", "module", "told"), MISSING)
def test_missing(url: str, module: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the command that installs the driver."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(errors.ConfigError) as refused:
        driver.require(url)
    assert told in refused.value.message
    assert "[database] connection" in refused.value.message


def test_unknown() -> None:
    """An unknown database is a mistake in the URL."""
    with pytest.raises(errors.ConfigError, match="is for oracel, which is no database here; use postgresql"):
        driver.require("oracel://h/x")


def test_mariadb_has_the_name_of_mysql() -> None:
    """SQLAlchemy has a dialect of this name, which the ledger cannot use."""
    with pytest.raises(errors.ConfigError, match="use postgresql.*, mysql.pymysql or sqlite"):
        driver.require("mariadb+pymysql://h/x")


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "postgresql+psycopg2://a@h/x",
        "postgresql+psycopg2://a@/x?host=h1,h2&target_session_attrs=read-write&sslmode=verify-full&sslrootcert=/ca.pem",
        "mysql+pymysql://a@h/x",
        "mysql+pymysql://a@h/x?charset=utf8mb4&ssl_ca=/ca.pem&ssl_check_hostname=true&init_command=DO+0&read_timeout=9",
        "mysql+pymysql://a@/x?unix_socket=/s",
    ],
)
def test_there(url: str) -> None:
    """An installed driver gives no message."""
    driver.require(url)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql+psycopg2://u:secret@/fleet?host=db1,db2&port=5", "number of hosts and ports don't match"),
        ("postgresql+psycopg2://u:secret@/fleet?host=db1&port=x", "non-integer port"),
        ("postgresql+psycopg2://u:secret@h/fleet?sslmod=verify-full", 'invalid connection option "sslmod"'),
        ("mysql+pymysql://u:secret@h/fleet?sslca=/ca.pem", "unknown option 'sslca'"),
        ("mysql+pymysql://u:secret@h/fleet?charset=utf9", "unknown charset 'utf9'"),
    ],
)
def test_a_url_that_the_driver_cannot_use(url: str, reason: str) -> None:
    """The error names the option and the reason; it does not have the password."""
    with pytest.raises(errors.ConfigError, match=reason) as refused:
        driver.require(url)
    assert "[database] connection" in refused.value.message
    assert "secret" not in refused.value.message


@pytest.mark.parametrize(
    "url", ["oracel://u:secret@h/x", "mysql+mysqldb://u:secret@h/x", "mysql+pymysql://u:secret@h/x?sslca=/ca.pem"]
)
def test_a_url_of_nova(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the option that has the URL: another one would be corrected in vain."""
    monkeypatch.setitem(sys.modules, "MySQLdb", None)
    with pytest.raises(errors.ConfigError, match=r"^Option \[nova\] api_connection ") as refused:
        NovaDatabase(url, "[nova] api_connection")
    assert ("[database]" in refused.value.message, "secret" in refused.value.message) == (False, False)


def test_another_driver_of_a_database_is_none_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(errors.ConfigError, match="write postgresql.psycopg2://"):
        driver.require("postgresql+psycopg://u@h/x")


def test_a_url_whose_port_is_no_number() -> None:
    """:func:`tls.require_trusted` names the option."""
    url = "postgresql+psycopg2://u:secret@h:abc/x"
    driver.require(url)
    assert tls.weakness(url) is None
    with pytest.raises(errors.ConfigError, match="is not a URL such as") as refused:
        tls.require_trusted(url)
    assert "secret" not in refused.value.message
    assert "Correct [database] connection." == tls.advice(refused.value)
