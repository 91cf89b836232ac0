# SPDX-License-Identifier: Apache-2.0
"""Key pairs of users. A user that is not known is the empty text."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import sqlalchemy as sa

from fleet import errors
from fleet.db import models
from fleet.db.engine import Transaction
from fleet.objects import KeyPair

KEY_PAIRS = models.key_pairs


def create(tx: Transaction, user_id: str | None, wanted: KeyPair, now: datetime.datetime) -> KeyPair:
    """Create a key pair. An equal one that exists already is returned: the commit was repeated.

    :raises errors.Conflict: the user has another one of this name
    """
    found = tx.execute(_one(user_id, wanted.name)).one_or_none()
    if found is None:
        values = {"name": wanted.name, "public_key": wanted.public_key, "created_at": now}
        tx.insert(KEY_PAIRS, {"user_id": user_id or "", **values})
        return find(tx, user_id, wanted.name)
    if found.public_key != wanted.public_key:
        raise errors.Conflict(kind="Key pair", name=wanted.name, reason="exists already, with another public key")
    return _to_key_pair(found)


def find(connection: Transaction | sa.Connection, user_id: str | None, name: str) -> KeyPair:
    """:raises errors.NotFound:"""
    row = connection.execute(_one(user_id, name)).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Key pair", name=name)
    return _to_key_pair(row)


def remove(tx: Transaction, user_id: str | None, name: str) -> None:
    """Remove a key pair. Instances keep their copy. :raises errors.NotFound:"""
    find(tx, user_id, name)
    tx.execute(KEY_PAIRS.delete().where(*_is(user_id, name)))


def list_all(connection: sa.Connection, user_id: str | None) -> Sequence[KeyPair]:
    """Those of a user, by name."""
    query = sa.select(KEY_PAIRS).where(KEY_PAIRS.c.user_id == (user_id or "")).order_by(KEY_PAIRS.c.name)
    return [_to_key_pair(row) for row in connection.execute(query)]


def _one(user_id: str | None, name: str) -> sa.Select:
    return sa.select(KEY_PAIRS).where(*_is(user_id, name))


def _is(user_id: str | None, name: str) -> tuple[sa.ColumnElement[bool], ...]:
    return KEY_PAIRS.c.user_id == (user_id or ""), KEY_PAIRS.c.name == name


def _to_key_pair(row: sa.Row) -> KeyPair:
    return KeyPair(row.name, row.public_key, row.created_at.isoformat() + "Z")
