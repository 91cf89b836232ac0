# SPDX-License-Identifier: Apache-2.0
"""Parts of a list by text, state and order, with the number of all that match. Lists of instances and of volumes use it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import sqlalchemy as sa

from fleet import errors
from fleet.db.tables.sql_types import Element, Select


@dataclasses.dataclass(frozen=True)
class Search:
    """The parameters by which a caller selects a part of a list.

    :param text: searched in the columns of ``Searched.text``, without regard to case; empty: all rows match
    :param state: only rows in this state; None: in any
    :param sort: a key of ``Searched.sort``
    :param offset: rows to leave out, in the order of ``sort``
    """

    text: str
    state: str | None
    sort: str
    descending: bool
    limit: int
    offset: int


@dataclasses.dataclass(frozen=True)
class Searched:
    """A list that can be searched. ``of_places`` are keys of ``sort`` and ``text`` that name hosts or pools."""

    rows: Select
    uuid: Element
    state: Element
    text: Mapping[str, Element]
    sort: Mapping[str, Element]
    of_places: frozenset[str]


FoundRow = TypeVar("FoundRow")


@dataclasses.dataclass(frozen=True)
class Found(Generic[FoundRow]):
    """A part of the list, the number of all rows that match, and the numbers by state, without the filter of the state."""

    rows: Sequence[FoundRow]
    total: int
    states: Mapping[str, int]


def read(
    connection: sa.Connection,
    searched: Searched,
    search: Search,
    where: Sequence[sa.ColumnElement[bool]],
    sees_places: bool,
) -> Found[object]:
    """Return the part of the list that ``search`` selects.

    :param where: conditions beside the text and the state
    :param sees_places: whether hosts and pools may be searched and sorted by: the order and the matches name them
    :raises errors.InvalidInput: an order that there is not, or that the caller may not see
    """
    hidden = frozenset() if sees_places else searched.of_places
    known = [name for name in searched.sort if name not in hidden]
    if search.sort not in known:
        raise errors.InvalidInput(field="sort", reason=f"must be one of {', '.join(known)}, not {search.sort}")
    matching = [*where]
    if search.text:
        texts = [column for name, column in searched.text.items() if name not in hidden]
        matching.append(sa.or_(*(column.icontains(search.text, autoescape=True) for column in texts)))
    by_state = searched.rows.with_only_columns(searched.state.label("state"), sa.func.count().label("number"))
    counted = connection.execute(by_state.where(*matching).group_by(searched.state).order_by(searched.state))
    states = {row.state: row.number for row in counted}
    if search.state is not None:
        matching.append(searched.state == search.state)
    keys = (searched.sort[search.sort], searched.uuid)
    ordered = searched.rows.where(*matching).order_by(*(each.desc() if search.descending else each for each in keys))
    rows = connection.execute(ordered.limit(search.limit).offset(search.offset)).all()
    total = sum(states.values()) if search.state is None else states.get(search.state, 0)
    return Found(rows, total, states)
