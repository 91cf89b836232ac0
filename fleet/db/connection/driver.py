# SPDX-License-Identifier: Apache-2.0
"""Checks that the database driver is installed and can use the URL.

Called by :mod:`fleet.db.engine.database` and :mod:`fleet.db.nova.engine`. Drivers are extras of the package, and the
error names the extra.
"""

from __future__ import annotations

import sqlalchemy as sa

from fleet import errors

_OPTION = "[database] connection"
_EXTRAS = {"postgresql": "postgresql", "mysql": "mariadb", "mariadb": "mariadb"}


def require(connection: str) -> None:
    """:raises errors.ConfigError: the driver of the URL is not installed, or cannot use it"""
    try:
        url = sa.make_url(connection)
    except sa.exc.ArgumentError:
        # ``tls.require_trusted`` reports an invalid URL.
        return
    try:
        url.get_dialect().import_dbapi()
        url.get_dialect()().create_connect_args(url)
    except ImportError as missing:
        extra = _EXTRAS.get(url.get_backend_name())
        advice = f"; install it with: pip install '.[{extra}]' in the directory of the source" if extra else ""
        raise errors.ConfigError(
            option=_OPTION, reason=f"needs a driver that is not installed ({missing}){advice}"
        ) from None
    except sa.exc.NoSuchModuleError:
        reason = f"is for {url.drivername}, which is no database here; use postgresql+psycopg2, mysql+pymysql or sqlite"
        raise errors.ConfigError(option=_OPTION, reason=reason) from None
    except (sa.exc.ArgumentError, TypeError, ValueError) as wrong:
        raise errors.ConfigError(
            option=_OPTION, reason=f"is a URL that {url.drivername} cannot use ({wrong})"
        ) from None
