# SPDX-License-Identifier: Apache-2.0
"""A request that its client repeats, since no answer came, is answered as it was the first time: nothing is built twice."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any, Self

from fleet import errors
from fleet.context import RequestContext
from fleet.db import builds
from fleet.db.engine import Connection, Transaction
from fleet.objects import BuildRequest


@dataclasses.dataclass(frozen=True)
class ClientToken:
    """What a client calls its request, and what the request says. A project's tokens are its own."""

    project_id: str
    token: str
    fingerprint: str

    @classmethod
    def of(cls, context: RequestContext, request: BuildRequest, token: str) -> Self:
        said = json.dumps(request.to_wire(), sort_keys=True)
        return cls(context.project_id or "", token, hashlib.sha256(said.encode()).hexdigest())

    def columns(self) -> dict[str, Any]:
        """Of the request's row, where a unique index lets only one of two conductors have the token."""
        return {"project_id": self.project_id, "client_token": self.token, "fingerprint": self.fingerprint}

    def first_answer(self, connection: Transaction | Connection) -> dict[str, Any] | None:
        """What ``create`` has answered when the token was used first; None when it was not.

        :raises errors.Conflict: it was used for a request that says something else
        """
        found = builds.request_of_token(connection, self.project_id, self.token)
        if found is None:
            return None
        if found.fingerprint != self.fingerprint:
            reason = f"was used before, for a request that says something else ({found.reservation_id})"
            raise errors.Conflict(kind="Field", name="client_token", reason=reason)
        rows = builds.of_request(connection, found.reservation_id)
        return {
            "reservation_id": found.reservation_id,
            "instances": [{"uuid": row.uuid, "name": row.name} for row in rows],
        }
