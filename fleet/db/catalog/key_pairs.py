# SPDX-License-Identifier: Apache-2.0
"""Key pairs of users in projects.

Called by :mod:`conductor_stub.operators.key_pairs`, :mod:`conductor_stub.builds.intake` and
:mod:`conductor_stub.power.rebuild`. A project or a user that is not known is the empty text.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import sqlalchemy as sa

from fleet import errors
from fleet.db.engine.database import Transaction
from fleet.db.hosts import lookup
from fleet.db.tables import models
from fleet.db.tables.catalog import KeyPairRow
from fleet.db.tables.sql_types import Select
from fleet.objects import KeyPair, key_pair

KEY_PAIRS = models.project_key_pairs
#: Project and user.
Owner = tuple[str | None, str | None]


def create(tx: Transaction, owner: Owner, wanted: KeyPair, now: datetime.datetime) -> KeyPair:
    """Create a key pair, or return the equal one that an earlier try of this transaction has committed.

    :raises errors.Conflict: the user has another one of this name in the project
    :raises errors.QuotaExceeded: the user has as many in the project as a user may have
    """
    found = tx.execute(_one(owner, wanted.name)).one_or_none()
    if found is None:
        _require_few(tx, owner)
        values = {"name": wanted.name, "public_key": wanted.public_key, "created_at": now}
        with lookup.naming("Key pair", wanted.name):
            tx.insert(KEY_PAIRS, {**_columns(owner), **values})
        return find(tx, owner, wanted.name)
    if found.public_key != wanted.public_key:
        raise errors.Conflict(kind="Key pair", name=wanted.name, reason="exists already, with another public key")
    return _to_key_pair(found)


def _require_few(tx: Transaction, owner: Owner) -> None:
    """:raises errors.QuotaExceeded:"""
    used = tx.execute(sa.select(sa.func.count()).select_from(KEY_PAIRS).where(*_are_of(owner))).scalar_one()
    if used >= key_pair.MOST:
        exceeded = [{"resource": "key_pairs", "quota": key_pair.MOST, "used": used, "asked": 1}]
        raise errors.QuotaExceeded(project_id=owner[0] or "", exceeded=exceeded)


def find(connection: Transaction | sa.Connection, owner: Owner, name: str) -> KeyPair:
    """:raises errors.NotFound:"""
    row = connection.execute(_one(owner, name)).one_or_none()
    if row is None:
        raise errors.NotFound(kind="Key pair", name=name)
    return _to_key_pair(row)


def remove(tx: Transaction, owner: Owner, name: str) -> None:
    """Remove a key pair. Instances keep their copy. :raises errors.NotFound:"""
    find(tx, owner, name)
    tx.execute(KEY_PAIRS.delete().where(*_is(owner, name)))


def list_all(connection: sa.Connection, owner: Owner) -> Sequence[KeyPair]:
    """Return the key pairs of a user in a project, by name."""
    query = sa.select(KEY_PAIRS).where(*_are_of(owner)).order_by(KEY_PAIRS.c.name)
    return [_to_key_pair(row) for row in connection.execute(query)]


def _one(owner: Owner, name: str) -> Select:
    return sa.select(KEY_PAIRS).where(*_is(owner, name))


def _is(owner: Owner, name: str) -> tuple[sa.ColumnElement[bool], ...]:
    return *_are_of(owner), KEY_PAIRS.c.name == name


def _are_of(owner: Owner) -> list[sa.ColumnElement[bool]]:
    return [KEY_PAIRS.c[column] == value for column, value in _columns(owner).items()]


def _columns(owner: Owner) -> dict[str, str]:
    project_id, user_id = owner
    return {"project_id": project_id or "", "user_id": user_id or ""}


def _to_key_pair(row: KeyPairRow) -> KeyPair:
    return KeyPair(row.name, row.public_key, row.created_at.isoformat() + "Z")
