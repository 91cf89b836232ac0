# SPDX-License-Identifier: Apache-2.0
"""Errors of the database. None of them carries a statement, a value or an address. Called by :mod:`fleet.errors`."""

from fleet.errors.base import FleetError
from fleet.reasons import Reason


class DatabaseError(FleetError):
    """A transaction failed. ``kind`` names the failure; ``retryable`` is True if the same request may succeed later.

    An agent treats it as an unknown outcome, because the transaction may have been committed.
    """

    retryable = False
    kind: str
    problem: str


class DatabaseUnavailable(DatabaseError):
    """The database cannot be reached, is full, locked or read-only at the moment. Send the request again later."""

    code = 503
    retryable = True
    template = "The database cannot be used now: {problem}."


class DatabaseFailed(DatabaseError):
    """The database refused a statement: a bug, or a schema that was changed by hand. The daemon's log has the place."""

    template = "The database refused a statement: {problem}."


class SchemaMismatch(FleetError):
    """The database has another schema than this program needs. Run ``fleet-manage db sync``, or upgrade the program."""

    reason_code = Reason.MISCONFIGURED
    template = "Database schema is at {found}, this program needs {expected}. {advice}"
