# SPDX-License-Identifier: Apache-2.0
"""The database drivers are extras of the package; one that is missing is named with its extra."""

from __future__ import annotations

import sqlalchemy as sa

from fleet import errors

_OPTION = "[database] connection"
_EXTRAS = {"postgresql": "postgresql", "mysql": "mariadb", "mariadb": "mariadb"}


def require(connection: str) -> None:
    """:raises errors.ConfigError: the driver that the URL names is not there"""
    try:
        url = sa.make_url(connection)
    except sa.exc.ArgumentError:
        # The check that follows says so.
        return
    try:
        url.get_dialect().import_dbapi()
    except ImportError as missing:
        extra = _EXTRAS.get(url.get_backend_name())
        advice = f"; install it with: pip install 'fleet[{extra}]'" if extra else ""
        raise errors.ConfigError(option=_OPTION, reason=f"the driver is not installed ({missing}){advice}") from None
    except sa.exc.NoSuchModuleError:
        reason = f"there is no database {url.drivername}; use postgresql+psycopg2, mysql+pymysql or sqlite"
        raise errors.ConfigError(option=_OPTION, reason=reason) from None
