# SPDX-License-Identifier: Apache-2.0
"""What :mod:`tests.statement_order` takes for a total order."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.statement_order import is_total
from tests.unordered_statements import REASONS, constants

DATA = sa.MetaData()
SHIPS = sa.Table(
    "ships",
    DATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(9), unique=True),
    sa.Column("port", sa.String(9)),
    sa.Column("berth", sa.Integer),
    sa.Column("built_at", sa.DateTime),
    sa.UniqueConstraint("port", "berth"),
)
CREW = sa.Table(
    "crew", DATA, sa.Column("number", sa.Integer, primary_key=True), sa.Column("ship_id", sa.ForeignKey("ships.id"))
)
S, C = SHIPS.c, CREW.c
BOTH = sa.select(C.number, S.name).join_from(CREW, SHIPS)
COUNTED = sa.select(S.port, sa.func.count()).group_by(S.port)
CASES = [
    ("no order", sa.select(SHIPS), False),
    ("by the primary key", sa.select(SHIPS).order_by(S.id), True),
    ("by a unique name, downwards", sa.select(SHIPS).order_by(S.name.desc()), True),
    ("by a time, which is not unique", sa.select(SHIPS).order_by(S.built_at), False),
    ("by a time, then the key", sa.select(SHIPS).order_by(S.built_at.desc(), S.id), True),
    ("by all columns of a unique key", sa.select(SHIPS).order_by(S.berth, S.port), True),
    ("by one column of a unique key", sa.select(SHIPS).order_by(S.berth), False),
    ("the other column of the key is given", sa.select(SHIPS).where(S.port == "x").order_by(S.berth), True),
    ("one row, by its key", sa.select(SHIPS).where(S.name == sa.bindparam("one")), True),
    ("several keys", sa.select(SHIPS).where(S.id.in_([1, 2])), False),
    ("one of two", sa.select(SHIPS).where(sa.or_(S.id == 1, S.name == "x")), False),
    ("the first of any", sa.select(SHIPS).limit(1), False),
    ("only what the order names is returned", sa.select(S.port).order_by(S.port), True),
    ("more than the order names is returned", sa.select(S.port, S.berth).order_by(S.port), False),
    ("a join by the key of the many", BOTH.order_by(C.number), True),
    ("a join by the key of the one", BOTH.order_by(S.id), False),
    ("an outer join", sa.select(CREW, SHIPS).outerjoin_from(CREW, SHIPS).order_by(C.number), True),
    ("a sum", sa.select(sa.func.sum(S.berth)), True),
    ("sums of groups", COUNTED, False),
    ("sums of groups, by the group", COUNTED.order_by(S.port), True),
    ("distinct, by what is returned", sa.select(S.port).distinct().order_by(S.port), True),
    ("an alias by its key", sa.select(SHIPS.alias("a")), False),
    ("a union", sa.union_all(sa.select(S.id), sa.select(C.number)), False),
    ("a union by its columns", sa.union_all(sa.select(S.id), sa.select(C.number)).order_by("id"), True),
    ("a word in place of a column", sa.select(S.port).order_by("port"), True),
]


@pytest.mark.parametrize(("name", "statement", "expected"), CASES, ids=[each[0] for each in CASES])
def test_total_orders(name, statement, expected):
    """Two runs of a statement with a total order return the same rows in the same order."""
    assert expected == is_total(statement)


@pytest.mark.parametrize("name", sorted(constants()))
def test_the_statements_of_the_database(name):
    """Each has a total order, or a reason why the order of its rows decides nothing."""
    assert is_total(constants()[name]) or name in REASONS


def test_no_reason_is_left_over():
    """A reason that is not needed any more goes, so that the next change needs one again."""
    known = constants()
    assert [] == [name for name in REASONS if name in known and is_total(known[name])]
    assert [] == [name for name in REASONS if "." in name.partition(":")[0] and ":" not in name and name not in known]
