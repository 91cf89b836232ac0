# SPDX-License-Identifier: Apache-2.0
"""The time at which the database runs a statement, as a column for any statement, on every database.

Statements that set or compare times have it in place of a daemon's own clock.
"""

from __future__ import annotations

import datetime

import sqlalchemy as sa
from sqlalchemy.ext import compiler
from sqlalchemy.sql import expression

from fleet.db.tables import models


class Now(expression.FunctionElement[datetime.datetime]):
    """The time at which the database runs the statement, not the start of its transaction."""

    type = models.Timestamp
    inherit_cache = True
    name = "ledger_now"


@compiler.compiles(Now, "postgresql")
def _postgresql(_element: Now, _compiler: object, **_options: object) -> str:
    return "timezone('utc', clock_timestamp())"


@compiler.compiles(Now, "mysql")
@compiler.compiles(Now, "mariadb")
def _mariadb(_element: Now, _compiler: object, **_options: object) -> str:
    return "UTC_TIMESTAMP(6)"


@compiler.compiles(Now, "sqlite")
def _sqlite(_element: Now, _compiler: object, **_options: object) -> str:
    return "strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'"


#: For use in other statements.
NOW = sa.type_coerce(Now(), models.Timestamp).label("now")
_READ = sa.select(NOW)


def read(connection: sa.Connection) -> datetime.datetime:
    """The time of the database."""
    found: datetime.datetime = connection.execute(_READ).scalar_one()
    return found
