# SPDX-License-Identifier: Apache-2.0
"""A client's name for its request: a request that is repeated with its token gets the answer of the first one.

Called by :mod:`conductor_stub.builds.intake` and :mod:`conductor_stub.volumes.creation`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from typing import Self, TypeVar

from fleet import errors
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database
from fleet.json_codec import JSONMapping

Answer = TypeVar("Answer")


def accept_once(
    database: Database, first_answer: Callable[[Connection], Answer | None] | None, accept: Callable[[], Answer]
) -> Answer:
    """Return the answer of ``accept``; if it refuses, that of the first request with the token.

    The type, the flavor or the source that the request names may not be as they were at the first request.

    :param first_answer: of the token; None: the request has none
    :raises errors.FleetError: the refusal of ``accept``, if there was no first request
    """
    try:
        return accept()
    except errors.FleetError:
        first = database.read(first_answer) if first_answer else None
        if first is None:
            raise
        return first


@dataclasses.dataclass(frozen=True)
class ClientToken:
    """The client's name for a request within its project, and a hash of the request."""

    project_id: str
    token: str
    fingerprint: str

    @classmethod
    def of(cls, context: RequestContext, request: JSONMapping, token: str) -> Self:
        """:param request: as it is sent"""
        text = json.dumps(request, sort_keys=True)
        return cls(context.project_id or "", token, hashlib.sha256(text.encode()).hexdigest())

    def columns(self) -> dict[str, object]:
        """Columns of the request's row. A unique index lets only one of two conductors write the token."""
        return {"project_id": self.project_id, "client_token": self.token, "fingerprint": self.fingerprint}

    @property
    def key(self) -> tuple[str, str]:
        """Return a key that is equal for requests of which at most one may be written."""
        return self.project_id, self.token

    def require_same(self, fingerprint: str, name: str) -> None:
        """:param name: of the first request. :raises errors.Conflict: it was a different one"""
        if fingerprint != self.fingerprint:
            reason = f"was used before, for a different request ({name})"
            raise errors.Conflict(kind="Field", name="client_token", reason=reason)
