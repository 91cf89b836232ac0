# SPDX-License-Identifier: Apache-2.0
"""Checks that the database driver is installed and can use the URL.

Called by :mod:`fleet.db.engine.database` and :mod:`fleet.db.nova.engine`. Drivers are extras of the package, and the
error names the extra.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from fleet import errors

_EXTRAS = {"psycopg2": "postgresql", "pymysql": "mariadb"}
_ADVICE = {"postgresql": "write postgresql+psycopg2://", "mysql": "write mysql+pymysql://"}


def require(connection: str, option: str = "[database] connection") -> None:
    """:param option: that has the URL, for messages

    :raises errors.ConfigError: the driver of the URL is not installed, or cannot use it
    """
    try:
        url = sa.make_url(connection)
    except (sa.exc.ArgumentError, ValueError):
        # ``tls.require_trusted`` reports an invalid URL.
        return
    if url.get_backend_name() == "mariadb":
        # SQLAlchemy knows it, but oslo.db does not.
        raise _unknown(url, option)
    try:
        module: Any = url.get_dialect().import_dbapi()
        _arguments, options = url.get_dialect()().create_connect_args(url)
        _require_options(url, module, options)
    except ImportError as missing:
        advice = _ADVICE.get(url.get_backend_name(), "")
        if url.get_driver_name() in _EXTRAS:
            advice = (
                f"install it with: pip install '.[{_EXTRAS[url.get_driver_name()]}]' in the directory of the source"
            )
        raise errors.ConfigError(
            option=option, reason=f"needs a driver that is not installed ({missing}){advice and f'; {advice}'}"
        ) from None
    except sa.exc.NoSuchModuleError:
        raise _unknown(url, option) from None
    except (sa.exc.ArgumentError, TypeError, ValueError) as wrong:
        raise errors.ConfigError(option=option, reason=f"is a URL that {url.drivername} cannot use ({wrong})") from None


def _unknown(url: sa.URL, option: str) -> errors.ConfigError:
    reason = f"is for {url.drivername}, which is no database here; use postgresql+psycopg2, mysql+pymysql or sqlite"
    return errors.ConfigError(option=option, reason=reason)


def _require_options(url: sa.URL, module: Any, options: Mapping[str, Any]) -> None:
    """:raises ValueError: the driver has no such option, or not this character set"""
    if url.get_driver_name() == "psycopg2":
        try:
            module.extensions.make_dsn(**options)
        except module.Error as wrong:
            raise ValueError(str(wrong).strip()) from None
    elif url.get_driver_name() == "pymysql":
        known = inspect.signature(module.connections.Connection).parameters
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise ValueError(f"unknown option {unknown[0]!r}")
        charset = options.get("charset")
        if charset and module.charset.charset_by_name(charset) is None:
            raise ValueError(f"unknown charset {charset!r}")
