# SPDX-License-Identifier: Apache-2.0
"""A database of nova.

Called by modules of :mod:`scheduler.nova` and :mod:`scheduler.nova.shadow`. Every session is read only, even if its
role may write.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa

from fleet import errors
from fleet.db.connection.options import USUAL, Limits
from fleet.db.engine import failures
from fleet.db.engine.reader import Reader
from fleet.db.engine.transaction import Connection
from fleet.db.nova import engine

__all__ = ["Connection", "NovaDatabase", "cell_url"]

Result = TypeVar("Result")

#: Seconds after which a connection is opened again. Servers and firewalls close idle ones.
_RECYCLE_S = 3600
_READ_ONLY = {
    "postgresql": "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "mysql": "SET SESSION TRANSACTION READ ONLY",
    "sqlite": "PRAGMA query_only = ON",
}


class NovaDatabase:
    """One engine. Errors are raised as ``errors.DatabaseError``, without statements, values and passwords.

    :param option: names the option with the URL, for messages
    :param within: limits of the waiting for its server
    :raises errors.ConfigError: the URL is invalid, or its driver is missing
    """

    def __init__(self, url: str, option: str, within: Limits = USUAL) -> None:
        self._engine = engine.opened(url, option, within, connection_recycle_time=_RECYCLE_S)
        self._dialect = self._engine.url.get_backend_name()
        sa.event.listen(self._engine, "connect", self._restrict)
        snapshot = self._engine
        if self._dialect != "sqlite":
            snapshot = self._engine.execution_options(isolation_level="REPEATABLE READ")
        self._snapshot = snapshot

    def reader(self) -> Reader:
        """Return a reader with a connection of its own. Each read sees one snapshot."""
        return Reader(self._snapshot)

    def read(self, work: Callable[..., Result], *args: object) -> Result:
        """Run ``work(connection, …)`` once, for rare uses by any thread. :raises errors.DatabaseError:"""
        caught = failures.caught(self._engine)
        try:
            with self._snapshot.connect() as connection:
                return work(connection, *args)
        except caught as failure:
            typed = failures.typed(failure, self._engine.url)
        raise typed

    def dispose(self) -> None:
        self._engine.dispose()

    def _restrict(self, connection: Any, _record: object) -> None:
        statement = _READ_ONLY.get("mysql" if self._dialect == "mariadb" else self._dialect)
        if statement is None:
            return
        cursor = connection.cursor()
        cursor.execute(statement)
        cursor.close()
        connection.commit()


def cell_url(mapping: str, template: str, main: str) -> str:
    """Return the URL of a cell's database.

    :param mapping: what ``cell_mappings`` has: a URL, or nova's template for one
    :param template: overrides it, with parts of the mapping's URL in braces; may be empty
    :param main: the URL whose parts fill the mapping if that is a template
    :raises errors.ConfigError:
    """
    found = _filled(mapping, main) if "{" in mapping else mapping
    return _filled(template, found) if template else found


def _filled(template: str, url: str) -> str:
    """Fill in a template with the parts of a URL, by nova's names of them."""
    try:
        parsed = sa.make_url(url)
        query = parsed.render_as_string(hide_password=False).partition("?")[2]
        known = {
            "scheme": parsed.drivername,
            "username": parsed.username or "",
            "password": parsed.password or "",
            "hostname": parsed.host or "",
            "port": parsed.port or "",
            "path": parsed.database or "",
            "query": query,
        }
        named = {name for _text, name, _spec, _conversion in string.Formatter().parse(template) if name is not None}
        if named - known.keys():
            raise ValueError
        filled = template.format(**known)
    except (sa.exc.ArgumentError, ValueError, IndexError, KeyError):
        reason = "is not a template with {scheme}, {username}, {password}, {hostname}, {port}, {path} and {query}"
        raise errors.ConfigError(
            option="[nova] cell_connection, or a cell's database_connection", reason=reason
        ) from None
    return _without_empty_port(filled)


def _without_empty_port(url: str) -> str:
    """Remove the colon of a port that is not given: ``host:/path`` is no URL."""
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{separator}{authority.removesuffix(':')}{slash}{path}"
