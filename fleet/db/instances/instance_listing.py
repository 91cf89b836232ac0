# SPDX-License-Identifier: Apache-2.0
"""Lists of instances in a stable order and in parts.

Conductors answer users and operators with them.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, cast

import sqlalchemy as sa

from fleet import errors
from fleet.db.instances.instances import INSTANCES, JOINED, LIVE, ORDER
from fleet.db.tables.base import Row
from fleet.db.tables.instances import RequestedInstance
from fleet.db.tables.sql_types import Column, Select

FILTERS = ("changed_since", "deleted", "host", "name", "project_id", "reservation_id", "uuids", "vm_state")
#: Columns by which a list may be sorted; fields of an instance with the same values have their names.
SORTED_BY = (
    *(
        "created_at",
        "updated_at",
        "launched_at",
        "terminated_at",
        "name",
        "uuid",
        "project_id",
        "user_id",
        "host",
        "node",
    ),
    *("vm_state", "task_state", "power_state", "availability_zone"),
)
_PLACE = sa.select(*(INSTANCES.c[name] for name in ("launch_index", *SORTED_BY))).where(
    INSTANCES.c.uuid == sa.bindparam("wanted", type_=sa.String)
)
#: Columns of a brief list: none of them grows with what users send.
BRIEF = ("uuid", "name", "project_id", "host", "vm_state", "task_state", "attempt")
_BRIEF_QUERY = sa.select(*(INSTANCES.c[name] for name in BRIEF))


@dataclasses.dataclass(frozen=True)
class SortKey:
    """A column of SORTED_BY, by which a list is sorted. Rows without a value are the smallest."""

    name: str
    descending: bool = False

    @property
    def column(self) -> Column:
        return INSTANCES.c[self.name]

    def terms(self) -> Sequence[sa.ColumnElement[Any]]:
        """Return the terms of ORDER BY. Databases differ about the place of NULL, so it has a term of its own."""
        terms = (
            [self.column] if not self.column.nullable else [sa.case((self.column.is_(None), 0), else_=1), self.column]
        )
        return [each.desc() for each in terms] if self.descending else terms

    def is_after(self, value: Any) -> sa.ColumnElement[bool]:
        """Return the condition of rows that come after one with this value."""
        if value is None:
            return sa.false() if self.descending else self.column.is_not(None)
        after: sa.ColumnElement[bool] = self.column > value
        return sa.or_(self.column < value, self.column.is_(None)) if self.descending else after


class BriefRow(Row, Protocol):
    """The columns BRIEF."""

    uuid: str
    name: str
    project_id: str | None
    host: str | None
    vm_state: str
    task_state: str | None
    attempt: int


def list_all(
    connection: sa.Connection,
    limit: int | None = None,
    marker: str | None = None,
    newest_first: bool = False,
    sort: Sequence[SortKey] = (),
    **filters: object,
) -> Sequence[RequestedInstance]:
    """Live instances, oldest first, or newest first.

    :param sort: another order: the first key decides first, and the oldest comes first where all keys are equal
    :param marker: uuid of an instance: only those after it, in this order
    :param filters: named in FILTERS; None does not filter. With ``deleted`` only those that were deleted and whose rows
        are still kept; with ``changed_since``, a time in UTC, also these, but none that has not changed since then
    :raises errors.NotFound: there never was an instance ``marker``, or it is of another project than ``filters`` name
    """
    query = _after(connection, JOINED, marker, newest_first, sort, filters).limit(limit)
    return cast("Sequence[RequestedInstance]", connection.execute(query).all())


def list_brief(
    connection: sa.Connection,
    limit: int | None = None,
    marker: str | None = None,
    newest_first: bool = False,
    sort: Sequence[SortKey] = (),
    **filters: object,
) -> Sequence[BriefRow]:
    """:func:`list_all` with the columns BRIEF only."""
    query = _after(connection, _BRIEF_QUERY, marker, newest_first, sort, filters).limit(limit)
    return cast("Sequence[BriefRow]", connection.execute(query).all())


def _after(
    connection: sa.Connection,
    query: Select,
    marker: str | None,
    newest_first: bool,
    sort: Sequence[SortKey],
    filters: Mapping[str, object],
) -> Select:
    # The keys of ``sort`` end with the oldest.
    newest_first = newest_first and not sort
    where = [_condition(name, value) for name, value in filters.items() if value is not None]
    if filters.get("deleted") is None and filters.get("changed_since") is None:
        where.append(LIVE)
    if marker is not None:
        last = connection.execute(_PLACE, {"wanted": marker}).one_or_none()
        if last is None:
            raise errors.NotFound(kind="Instance", name=marker)
        if filters.get("project_id") not in (None, last.project_id):
            # A project must not find out which uuids there are.
            raise errors.NotFound(kind="Instance", name=marker)
        place = (last.created_at, last.launch_index, last.uuid)
        after = sa.tuple_(*ORDER) < place if newest_first else sa.tuple_(*ORDER) > place
        for key in reversed(sort):
            value = getattr(last, key.name)
            after = sa.or_(key.is_after(value), sa.and_(key.column.is_not_distinct_from(value), after))
        where.append(after)
    order = (each.desc() if newest_first else each for each in ORDER)
    return query.where(*where).order_by(*(term for key in sort for term in key.terms()), *order)


def _condition(name: str, value: Any) -> sa.ColumnElement[bool]:
    condition: sa.ColumnElement[bool]
    if name == "uuids":
        condition = INSTANCES.c.uuid.in_(value)
    elif name == "changed_since":
        condition = sa.func.coalesce(INSTANCES.c.updated_at, INSTANCES.c.created_at) >= value
    else:
        condition = INSTANCES.c[name] == value
    return condition


class InstanceSummary(Row, Protocol):
    """The columns of :func:`summaries`."""

    uuid: str
    name: str
    vm_state: str
    task_state: str | None
    attempt: int
    host: str | None
    updated_at: datetime.datetime | None
    step_deadline: datetime.datetime | None
    deadline: datetime.datetime | None


def summaries(connection: sa.Connection, uuids: Collection[str]) -> Sequence[InstanceSummary]:
    """Name, states, attempt, host and deadlines of these instances, also of deleted ones."""
    columns = ("uuid", "name", "vm_state", "task_state", "attempt", "host", "updated_at", "step_deadline", "deadline")
    query = sa.select(*(INSTANCES.c[name] for name in columns)).where(INSTANCES.c.uuid.in_(uuids))
    return cast(
        "Sequence[InstanceSummary]",
        connection.execute(query.order_by(INSTANCES.c.created_at, INSTANCES.c.name, INSTANCES.c.uuid)).all(),
    )
