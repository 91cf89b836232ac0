# SPDX-License-Identifier: Apache-2.0
"""Requests for volumes that have a client token: which volumes the first request with a token has made.

Called by :mod:`conductor_stub.volumes.creation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import sqlalchemy as sa

from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.db.tables.sql_types import Values

REQUESTS = models.volume_requests
VOLUMES = models.volumes

_OF_TOKEN = (
    sa.select(VOLUMES.c.uuid, VOLUMES.c.name, REQUESTS.c.fingerprint)
    .join_from(REQUESTS, VOLUMES, VOLUMES.c.uuid == REQUESTS.c.volume_uuid)
    .where(REQUESTS.c.project_id == sa.bindparam("of_project"), REQUESTS.c.client_token == sa.bindparam("token"))
    .order_by(REQUESTS.c.number)
)


class TokenVolume(Protocol):
    """A volume of a request that has a client token."""

    uuid: str
    name: str
    fingerprint: str


def of_token(connection: Transaction | sa.Connection, project_id: str, token: str) -> Sequence[TokenVolume]:
    """``uuid``, ``name`` and ``fingerprint`` of the volumes of a request, also of deleted ones, in their order."""
    found = connection.execute(_OF_TOKEN, {"of_project": project_id, "token": token})
    return cast("Sequence[TokenVolume]", found.all())


def create(tx: Transaction, uuids: Sequence[str], columns: Values) -> None:
    """Insert the volumes of a request at the end of the transaction. :param columns: of its token"""
    for number, uuid in enumerate(uuids):
        tx.defer_insert(REQUESTS, {"volume_uuid": uuid, "number": number, **columns})
