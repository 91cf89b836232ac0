# SPDX-License-Identifier: Apache-2.0
"""A client's name for its request: a request that is repeated with its token gets the answer of the first one.

Called by :mod:`conductor_stub.builds.client_token` and :mod:`conductor_stub.volumes.creation`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Self

from fleet import errors
from fleet.context import RequestContext
from fleet.json_codec import JSONMapping


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
