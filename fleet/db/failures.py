# SPDX-License-Identifier: Apache-2.0
"""Turns an error of the database or its driver into one of ours: without statement, values or address.

SQLAlchemy's text has the statement and its parameters, the server's own quotes values (PostgreSQL: "Failing row contains
…"), and a driver's text may have the URL. Users' metadata and tokens are among those values. So of an error with a
statement only names are kept: the class, the server's code, and the constraint, table or column. A connection that cannot
be opened carries no value; its first line is kept, since it says which server was tried and why it failed.
"""

from __future__ import annotations

import logging as standard_logging
import traceback

import sqlalchemy as sa
from oslo_db import exception as db_exception
from oslo_log import log as logging

from fleet import errors
from fleet.telemetry import rate_limited_log

LOG = logging.getLogger(__name__)

#: What the libraries below this package raise. ``Database`` raises ``errors.DatabaseError`` in place of these; a migration,
#: which uses the engine itself, does not.
RAISED = (db_exception.DBError, sa.exc.SQLAlchemyError)

#: A transaction that ended so is run again from its start.
_AGAIN = (db_exception.DBConnectionError, db_exception.DBDeadlock)
#: SQLSTATE classes: connection, rollback, resources, operator intervention, system; and 25006, read only.
_PASSING_STATES = ("08", "40", "53", "57", "58", "25006", "55P03")
#: MariaDB: too many connections, shutdown, lock wait, deadlock, disk full, read only.
_PASSING_NUMBERS = {1021, 1040, 1053, 1114, 1205, 1213, 1290, 1836, 1927, 2006, 2013}
_PASSING_NAMES = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY")
_LONGEST = 300
_said = rate_limited_log.RateLimit()


def caught(engine: sa.Engine) -> tuple[type[Exception], ...]:
    """What a use of ``engine`` raises when the database is at fault."""
    driver = engine.dialect.loaded_dbapi.Error
    return (db_exception.DBError, db_exception.DBInvalidUnicodeParameter, sa.exc.SQLAlchemyError, driver)


def typed(failure: Exception, url: sa.URL | None = None) -> errors.DatabaseError:
    """An error to be raised in place of ``failure``, outside of the ``except`` clause: nothing may hang on it.

    :param url: of the database; its password is taken out of the driver's text
    """
    orig, statement = _original(failure)
    kind = type(failure).__name__
    if statement is None and _is_of_connecting(failure, orig):
        return errors.DatabaseUnavailable(kind=kind, problem=_first_line(orig, url))
    # oslo.db has no class for most failures; the driver has.
    name = type(orig).__name__ if kind == db_exception.DBError.__name__ else kind
    problem = ", ".join([name, *_names(failure, orig)])
    if isinstance(failure, _AGAIN):
        return errors.DatabaseUnavailable(kind=kind, problem=problem)
    made = errors.DatabaseUnavailable if _is_passing(orig) else errors.DatabaseFailed
    refused = made(kind=kind, problem=problem)
    # Of a row that another transaction has inserted first the second run makes sense.
    if not is_duplicate(refused):
        _log(refused, failure)
    return refused


def runs_again(failure: Exception) -> bool:
    """Whether a transaction that failed with this error of ours is run again by itself."""
    kinds = {each.__name__ for each in (*_AGAIN, db_exception.DBConsistencyError)}
    return isinstance(failure, errors.DatabaseUnavailable) and failure.kind in kinds


def is_duplicate(failure: errors.DatabaseError) -> bool:
    return failure.kind == db_exception.DBDuplicateEntry.__name__


def deadlock() -> Exception:
    """The error of a deadlock, as the libraries raise it: for failpoints."""
    return db_exception.DBDeadlock()


def disconnection() -> Exception:
    """The error of a lost connection, as the libraries raise it: for failpoints."""
    return db_exception.DBConnectionError()


def keep_libraries_quiet() -> None:
    """oslo.db logs each error that it does not recognise, and each that was retried in vain, with all of its text."""
    for name in ("oslo_db.sqlalchemy.exc_filters", "oslo_db.api"):
        logger = standard_logging.getLogger(name)
        if _without_text not in logger.filters:
            logger.addFilter(_without_text)


def _without_text(record: standard_logging.LogRecord) -> bool:
    return not record.exc_info and record.levelno > standard_logging.DEBUG


def _original(failure: Exception) -> tuple[BaseException, str | None]:
    """The driver's own error, and the statement that it is about."""
    inner = getattr(failure, "inner_exception", None) or failure
    statement = getattr(inner, "statement", None)
    return getattr(inner, "orig", None) or inner, statement


def _is_of_connecting(failure: Exception, orig: BaseException) -> bool:
    wrapped = isinstance(failure, db_exception.DBConnectionError | sa.exc.OperationalError | sa.exc.TimeoutError)
    return wrapped or type(orig).__name__ == "OperationalError" or isinstance(orig, OSError)


def _first_line(orig: BaseException, url: sa.URL | None) -> str:
    lines = str(orig).strip().splitlines() or [type(orig).__name__]
    line = lines[0][:_LONGEST]
    password = str(url.password) if url is not None and url.password else ""
    return line.replace(password, "***") if password else line


def _names(failure: Exception, orig: BaseException) -> list[str]:
    """The server's code, and what of the schema it is about."""
    code = getattr(orig, "pgcode", None) or getattr(orig, "sqlite_errorname", None) or _number(orig)
    names = [f"code {code}"] if code else []
    diagnosis = getattr(orig, "diag", None)
    for what in ("constraint", "table", "column"):
        name = getattr(diagnosis, f"{what}_name", None) or getattr(failure, what, None)
        names += [f"{what} {name}"] if isinstance(name, str) and name else []
    return names


def _number(orig: BaseException) -> int | None:
    """MariaDB's, which PyMySQL gives as the first argument."""
    number = orig.args[0] if orig.args else None
    return number if isinstance(number, int) else None


def _is_passing(orig: BaseException) -> bool:
    state, name = getattr(orig, "pgcode", None) or "", getattr(orig, "sqlite_errorname", None) or ""
    return state.startswith(_PASSING_STATES) or name.startswith(_PASSING_NAMES) or _number(orig) in _PASSING_NUMBERS


def _log(refused: errors.DatabaseError, failure: Exception) -> None:
    """One line a minute for each kind, with the place in our code: the error itself is not shown."""
    left_out = _said.due(str(refused.problem))
    if left_out is None:
        return
    ours = [
        f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_stack()[:-2] + traceback.extract_tb(failure.__traceback__)
        if "site-packages" not in frame.filename
    ]
    LOG.error("%s At %s (%d more since the last such line)", refused.message, " < ".join(ours[::-1][:6]), left_out)
