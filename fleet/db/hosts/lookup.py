# SPDX-License-Identifier: Apache-2.0
"""Finds the row that a user's text stands for, among the rows that the caller may see; and lets each name be one row's.

Called by the modules of tables whose rows have names. A uuid is only ever a uuid. Any other text is the name of a
live row, or the beginning of a uuid as the lists of the ``fleet`` command show it (``fleet.objects.uuid_like``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import sqlalchemy as sa
from oslo_db import exception as db_exception

from fleet import errors
from fleet.db.engine.transaction import Transaction
from fleet.objects import uuid_like

#: Matches that an error lists.
_LISTED = 5


class _Named(Protocol):
    uuid: str
    name: str


class _Owned(Protocol):
    project_id: str | None


def find(
    connection: sa.Connection | Transaction, kind: str, table: sa.Table, text: str, *live: Any, among: Any = ()
) -> str:
    """The uuid that ``text`` stands for. Whether a text that is a uuid has a row, the caller finds out.

    :param table: with the columns ``uuid`` and ``name``
    :param live: conditions of rows that have their names, and are preferred, such as those that are not deleted
    :param among: conditions of the rows that the caller may see
    :raises errors.NotFound: none matches; errors.Conflict: several match; the message lists them
    """
    known = uuid_like.canonical(text)
    if known is not None:
        return known
    shown = table.c.uuid, table.c.name
    columns = sa.select(*shown).where(*among).order_by(*shown).limit(_LISTED + 1)
    named, begins = table.c.name == text, table.c.uuid.startswith(text.lower(), autoescape=True)
    if not uuid_like.is_beginning(text):
        found = connection.execute(columns.where(named, *live)).all()
    else:
        # Earlier releases accepted such names.
        found = connection.execute(columns.where(sa.or_(named, begins), *live)).all()
        if not found and live:
            found = connection.execute(columns.where(begins)).all()
    if not found:
        raise errors.NotFound(kind=kind, name=text)
    if len(found) > 1:
        raise errors.Conflict(kind=kind, name=text, reason=_several(found))
    uuid: str = found[0].uuid
    return uuid


def of_project(table: sa.Table, project: str | None) -> tuple[Any, ...]:
    """Conditions of the rows that a project may see. :param project: None: the administrator sees all"""
    return () if project is None else (table.c.project_id == project,)


def require_visible(row: _Owned, kind: str, text: str, project: str | None) -> None:
    """:raises errors.NotFound: the row is of another project. :param project: as in :func:`of_project`"""
    if project is not None and row.project_id != project:
        raise errors.NotFound(kind=kind, name=text)


@contextlib.contextmanager
def naming(kind: str, name: str) -> Iterator[None]:
    """Within this context a row gets its name. Two of the same name may be on their way: the index decides.

    :raises errors.Conflict: another row has the name
    """
    try:
        yield
    except db_exception.DBDuplicateEntry:
        raise errors.Conflict(kind=kind, name=name, reason="exists already") from None


def _several(found: Sequence[_Named]) -> str:
    listed = ", ".join(f"{each.uuid} ({each.name})" for each in found[:_LISTED])
    more = ", …" if len(found) > _LISTED else ""
    return f"stands for several; use a uuid: {listed}{more}"
