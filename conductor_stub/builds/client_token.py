# SPDX-License-Identifier: Apache-2.0
"""Makes ``create`` idempotent: a request that is repeated with its client token gets the answer of the first one."""

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
    """The client's name for a request within its project, and a hash of the request."""

    project_id: str
    token: str
    fingerprint: str

    @classmethod
    def of(cls, context: RequestContext, request: BuildRequest, token: str) -> Self:
        text = json.dumps(request.to_wire(), sort_keys=True)
        return cls(context.project_id or "", token, hashlib.sha256(text.encode()).hexdigest())

    def columns(self) -> dict[str, Any]:
        """Columns of the request's row. A unique index lets only one of two conductors write the token."""
        return {"project_id": self.project_id, "client_token": self.token, "fingerprint": self.fingerprint}

    def first_answer(self, connection: Transaction | Connection) -> dict[str, Any] | None:
        """The answer of ``create`` to the first request with this token; None if there was none.

        :raises errors.Conflict: that request was a different one
        """
        found = builds.request_of_token(connection, self.project_id, self.token)
        if found is None:
            return None
        if found.fingerprint != self.fingerprint:
            reason = f"was used before, for a different request ({found.reservation_id})"
            raise errors.Conflict(kind="Field", name="client_token", reason=reason)
        rows = builds.of_request(connection, found.reservation_id)
        return {
            "reservation_id": found.reservation_id,
            "instances": [{"uuid": row.uuid, "name": row.name} for row in rows],
        }
