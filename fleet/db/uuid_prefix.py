# SPDX-License-Identifier: Apache-2.0
"""Finds a row by the beginning of its uuid, as the lists of the ``fleet`` command show it."""

from __future__ import annotations

import re
from typing import Any

import sqlalchemy as sa

from fleet import errors
from fleet.db.transaction import Transaction

_BEGINNING = re.compile(r"[0-9a-fA-F][0-9a-fA-F-]{0,35}")
_ALL = sa.true()
#: Matches that an error lists.
_LISTED = 5


def find(
    connection: sa.Connection | Transaction,
    kind: str,
    uuid: sa.Column,
    name: sa.Column,
    wanted: str,
    *live: Any,
    among: Any = _ALL,
) -> str:
    """The one uuid that begins with ``wanted``.

    :param live: conditions of rows that are preferred, such as those that are not deleted
    :param among: condition of all rows that are looked at
    :raises errors.NotFound: none matches; errors.Conflict: several match; the message lists them
    """
    if not _BEGINNING.fullmatch(wanted):
        raise errors.NotFound(kind=kind, name=wanted)
    begins = sa.select(uuid, name).where(uuid.startswith(wanted.lower(), autoescape=True), among).order_by(uuid)
    found = connection.execute(begins.where(*live).limit(_LISTED + 1)).all()
    if not found and live:
        found = connection.execute(begins.limit(_LISTED + 1)).all()
    if not found:
        raise errors.NotFound(kind=kind, name=wanted)
    if len(found) > 1:
        listed = ", ".join(f"{each[0]} ({each[1]})" for each in found[:_LISTED])
        more = ", …" if len(found) > _LISTED else ""
        raise errors.Conflict(kind=kind, name=wanted, reason=f"is the beginning of several uuids: {listed}{more}")
    return found[0][0]
