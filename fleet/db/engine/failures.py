# SPDX-License-Identifier: Apache-2.0
"""Turns an error of the database or its driver into ``errors.DatabaseError``, without statement, values or address.

Called by the modules beside it and those of :mod:`fleet.db.nova`. The text of SQLAlchemy has the statement and its
parameters, that of the server quotes values (PostgreSQL: "Failing row contains …"), and that of a driver may have the
URL. Metadata and tokens of users are among these values. Of an error with a statement only names are kept: the class,
the code of the server, and the constraint, table or column. An error of connecting has no values; its first line is
kept, since it names the server and the reason.
"""

from __future__ import annotations

import logging as standard_logging
import traceback

import sqlalchemy as sa
from oslo_db import exception as db_exception
from oslo_log import log as logging

from fleet import errors, failpoints
from fleet.telemetry import rate_limited_log

LOG = logging.getLogger(__name__)

#: Errors of the libraries below this package. ``Database`` raises ``errors.DatabaseError`` in their place; a migration,
#: which uses the engine itself, raises these.
RAISED = (db_exception.DBError, sa.exc.SQLAlchemyError)

#: A transaction with one of these errors is run again from its start.
_AGAIN = (db_exception.DBConnectionError, db_exception.DBDeadlock)
#: The errors that failpoints stand for.
_INJECTED = {
    failpoints.Action.DEADLOCK: db_exception.DBDeadlock,
    failpoints.Action.DISCONNECT: db_exception.DBConnectionError,
}
#: SQLSTATE classes: connection, rollback, resources, operator intervention, system; and 25006, read only.
_PASSING_STATES = ("08", "40", "53", "57", "58", "25006", "55P03")
#: MariaDB: too many connections, shutdown, lock wait, deadlock, disk full, read only.
_PASSING_NUMBERS = {1021, 1040, 1053, 1114, 1205, 1213, 1290, 1836, 1927, 2006, 2013}
_PASSING_NAMES = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY")
_LONGEST = 300
_said = rate_limited_log.RateLimit()


def caught(engine: sa.Engine) -> tuple[type[Exception], ...]:
    """Errors of the database that a use of ``engine`` may raise.

    PyMySQL reads the files of TLS before it connects, and raises an OSError if it cannot.
    """
    driver = engine.dialect.loaded_dbapi.Error
    ours = failpoints.DatabaseFault
    return (
        *(db_exception.DBError, db_exception.DBInvalidUnicodeParameter, sa.exc.SQLAlchemyError, driver, ours),
        OSError,
    )


def typed(failure: Exception, url: sa.URL | None = None) -> errors.DatabaseError:
    """The error to raise in place of ``failure``, outside of the ``except`` clause, so that it has no context.

    :param url: of the database; its password is removed from the text of the driver
    """
    if isinstance(failure, failpoints.DatabaseFault):
        failure = _INJECTED[failure.action]()
    orig, statement = _original(failure)
    kind = type(failure).__name__
    if statement is None and _is_of_connecting(failure, orig):
        return errors.DatabaseUnavailable(kind=kind, problem=_first_line(orig, url))
    # oslo.db has no class for most errors; the driver has.
    name = type(orig).__name__ if kind == db_exception.DBError.__name__ else kind
    problem = ", ".join([name, *_names(failure, orig)])
    if isinstance(failure, _AGAIN):
        return errors.DatabaseUnavailable(kind=kind, problem=problem)
    made = errors.DatabaseUnavailable if _is_passing(orig) else errors.DatabaseFailed
    refused = made(kind=kind, problem=problem)
    # A duplicate row is no error yet: the second run finds the row that another transaction has inserted.
    if not is_duplicate(refused):
        _log(refused, failure)
    return refused


def refused_value(failure: Exception) -> errors.InvalidInput | None:
    """The error of a value that could not be read back as JSON, if ``failure`` wraps one. Nothing was sent."""
    orig, _statement = _original(failure)
    return orig if isinstance(orig, errors.InvalidInput) else None


def runs_again(failure: Exception) -> bool:
    """Return True if a transaction with this error is run again."""
    kinds = {each.__name__ for each in (*_AGAIN, db_exception.DBConsistencyError)}
    return isinstance(failure, errors.DatabaseUnavailable) and failure.kind in kinds


def is_duplicate(failure: errors.DatabaseError) -> bool:
    return bool(failure.kind == db_exception.DBDuplicateEntry.__name__)


def keep_libraries_quiet() -> None:
    """Drop the log lines of oslo.db about unknown errors and exhausted retries, and those of SQLAlchemy's pool about lost
    connections: they have the full text.
    """
    for name in ("oslo_db.sqlalchemy.exc_filters", "oslo_db.api", "sqlalchemy.pool.impl.QueuePool"):
        logger = standard_logging.getLogger(name)
        if _without_text not in logger.filters:
            logger.addFilter(_without_text)


def _without_text(record: standard_logging.LogRecord) -> bool:
    return not record.exc_info and record.levelno > standard_logging.DEBUG


def _original(failure: Exception) -> tuple[BaseException, str | None]:
    """The error of the driver, and its statement."""
    inner = getattr(failure, "inner_exception", None) or failure
    statement = getattr(inner, "statement", None)
    return getattr(inner, "orig", None) or inner, statement


def _is_of_connecting(failure: Exception, orig: BaseException) -> bool:
    wrapped = isinstance(failure, db_exception.DBConnectionError | sa.exc.OperationalError | sa.exc.TimeoutError)
    return wrapped or type(orig).__name__ == "OperationalError" or isinstance(orig, OSError)


def _first_line(orig: BaseException, url: sa.URL | None) -> str:
    lines = str(orig).strip().splitlines() or [type(orig).__name__]
    line = lines[0][:_LONGEST]
    if isinstance(orig, OSError):
        line += " (files that its URL names, such as ssl_ca)"
    password = str(url.password) if url is not None and url.password else ""
    return line.replace(password, "***") if password else line


def _names(failure: Exception, orig: BaseException) -> list[str]:
    """The code of the server, and the names of constraint, table and column."""
    code = getattr(orig, "pgcode", None) or getattr(orig, "sqlite_errorname", None) or _number(orig)
    names = [f"code {code}"] if code else []
    diagnosis = getattr(orig, "diag", None)
    for what in ("constraint", "table", "column"):
        name = getattr(diagnosis, f"{what}_name", None) or getattr(failure, what, None)
        names += [f"{what} {name}"] if isinstance(name, str) and name else []
    return names


def _number(orig: BaseException) -> int | None:
    """The error number of MariaDB, which is PyMySQL's first argument."""
    number = orig.args[0] if orig.args else None
    return number if isinstance(number, int) else None


def _is_passing(orig: BaseException) -> bool:
    state, name = getattr(orig, "pgcode", None) or "", getattr(orig, "sqlite_errorname", None) or ""
    return state.startswith(_PASSING_STATES) or name.startswith(_PASSING_NAMES) or _number(orig) in _PASSING_NUMBERS


def _log(refused: errors.DatabaseError, failure: Exception) -> None:
    """Log one line a minute for each kind, with the place in our code and without the original text."""
    left_out = _said.due(str(refused.problem))
    if left_out is None:
        return
    ours = [
        f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_stack()[:-2] + traceback.extract_tb(failure.__traceback__)
        if "site-packages" not in frame.filename
    ]
    LOG.error("%s At %s (%d more since the last such line)", refused.message, " < ".join(ours[::-1][:6]), left_out)
