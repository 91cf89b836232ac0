# SPDX-License-Identifier: Apache-2.0
"""Makes ``create`` idempotent: a request that is repeated with its client token gets the answer of the first one.

Called by :mod:`conductor_stub.builds.acceptance` and :mod:`conductor_stub.builds.intake`.
"""

from __future__ import annotations

from conductor_stub.steps import client_token
from fleet.db.engine.database import Connection, Transaction
from fleet.db.instances import builds
from fleet.objects.answers.instances import AcceptedRequest


class ClientToken(client_token.ClientToken):
    """The token of a build request."""

    def first_answer(self, connection: Transaction | Connection) -> AcceptedRequest | None:
        """The answer of ``create`` to the first request with this token; None if there was none.

        :raises errors.Conflict: that request was a different one
        """
        found = builds.request_of_token(connection, self.project_id, self.token)
        if found is None:
            return None
        self.require_same(found.fingerprint, found.reservation_id)
        rows = builds.of_request(connection, found.reservation_id)
        return {
            "reservation_id": found.reservation_id,
            "instances": [{"uuid": row.uuid, "name": row.name} for row in rows],
        }
