# SPDX-License-Identifier: Apache-2.0
"""TLS to the database: whether a connection uses it and verifies the server, and why a connection was refused.

Called by :mod:`fleet.db.engine.database`, and by the checks of the configuration and of a fleet.
"""

from __future__ import annotations

import sqlalchemy as sa

from fleet import errors
from fleet.db.connection.loopback import is_loopback

#: Texts of drivers and OpenSSL if the certificate, or TLS itself, is the problem.
_REFUSALS = (
    "certificate",
    "ssl error",
    "does not support ssl",
    "ssl is required",
    "doesn't support it",
    "tls",
)
_UNTRUSTED = "leads to no trusted connection"
_CERTIFICATE = (
    "The certificate must be for the host that [database] connection names, and signed by the authority given there."
)
_POSTGRESQL = "add ?sslmode=verify-full&sslrootcert=FILE with the authority that signed its certificate"
_MARIADB = "add ?ssl_ca=FILE with the authority that signed its certificate"


def weakness(connection: str) -> tuple[str, str] | None:
    """Return how ``[database] connection`` lacks protection, and advice; None if it is protected or local."""
    try:
        url = sa.make_url(connection)
    except (sa.exc.ArgumentError, ValueError):
        return None
    hosts = [part for value in (url.host, url.query.get("host")) for part in _each(value)]
    if url.get_backend_name() not in ("postgresql", "mysql", "mariadb") or all(map(is_loopback, hosts)):
        return None
    if url.get_backend_name() == "postgresql":
        lacks, advice = _postgresql_lacks(str(url.query.get("sslmode", ""))), _POSTGRESQL
    else:
        lacks, advice = _mariadb_lacks(url), _MARIADB
    return (f"the database on {hosts[0]} is reached {lacks}", f"In [database] connection {advice}.") if lacks else None


def _each(value: object) -> list[str]:
    values = value if isinstance(value, tuple) else (value,)
    return [part for each in values if each for part in str(each).split(",")]


def _postgresql_lacks(mode: str) -> str:
    if mode == "verify-full":
        return ""
    if mode in ("require", "verify-ca"):
        return f"with sslmode={mode}, which does not check that its certificate is for that host"
    return "without TLS"


def _mariadb_lacks(url: sa.URL) -> str:
    if {"ssl_verify_identity", "ssl_verify_cert"} & set(url.query):
        # SQLAlchemy passes ssl_ca to PyMySQL in another form, which these options would override.
        return "with ssl_verify_identity or ssl_verify_cert, which make its driver forget ssl_ca: leave them out"
    if not {"ssl_ca", "ssl_capath"} & set(url.query):
        return "without TLS"
    if str(url.query.get("ssl_check_hostname", "true")).lower() in ("false", "0", "no", "off"):
        return "with ssl_check_hostname=false: its certificate may be anybody's"
    return ""


def require_trusted(connection: str) -> None:
    """Connect once if TLS is configured: a certificate that is refused now is refused at every attempt.

    :raises errors.ConfigError: the URL is invalid, or TLS fails, with the reason of the driver. A database that is away
        raises nothing here
    """
    url = _parsed(connection)
    if not any(name.startswith("ssl") for name in url.query):
        return
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    try:
        engine.connect().close()
    except (sa.exc.SQLAlchemyError, OSError) as refused:
        reason = refusal(refused)
    else:
        return
    if reason:
        raise errors.ConfigError(option="[database] connection", reason=f"{_UNTRUSTED}: {reason}")


def advice(wrong: errors.ConfigError) -> str:
    """Return what to do about an option of the database that cannot be used."""
    return _CERTIFICATE if _UNTRUSTED in wrong.message else "Correct [database] connection."


def _parsed(connection: str) -> sa.URL:
    try:
        return sa.make_url(connection)
    except (sa.exc.ArgumentError, ValueError):
        reason = "is not a URL such as postgresql+psycopg2://USER:PASSWORD@HOST/DATABASE"
    raise errors.ConfigError(option="[database] connection", reason=reason)


def refusal(error: BaseException) -> str:
    """The driver's text if it is about TLS, else "". It contains file names, and no password."""
    text = str(getattr(error, "orig", None) or error)
    # The driver of PostgreSQL tries each address, and repeats the text for each.
    line = next((line.strip() for line in text.splitlines() if any(each in line.lower() for each in _REFUSALS)), "")
    if not line and isinstance(error, OSError):
        return f"{error.strerror}: {error.filename}" if error.filename else ""
    return line
