# SPDX-License-Identifier: Apache-2.0
"""The key pairs of users in projects, namespace ``operator``. Project and user are those of the call's context."""

from __future__ import annotations

from fleet import errors
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.catalog import key_pairs
from fleet.db.engine.database import Database, Transaction
from fleet.json_codec import JSONObject
from fleet.objects import KeyPair, fields
from fleet.objects.answers.catalog import KeyPairView
from fleet.rpc.endpoint import endpoint, served


class KeyPairManager:
    target = served("conductor", "operator")

    def __init__(self, database: Database, clock: Clock = utcnow) -> None:
        self._database = database
        self._clock = clock

    @endpoint
    def list_key_pairs(self, context: RequestContext) -> list[KeyPairView]:
        return [each.to_wire() for each in self._database.read(key_pairs.list_all, _owner(context))]

    @endpoint
    def create_key_pair(self, context: RequestContext, key_pair: JSONObject) -> KeyPairView:
        """:raises errors.Conflict: the user has another of this name; errors.InvalidInput: naming the field
        :raises errors.QuotaExceeded: the user has ``key_pair.MOST`` in the project
        """
        wanted = KeyPair.from_wire(key_pair)
        return self._database.write(key_pairs.create, _owner(context), wanted, self._clock()).to_wire()

    @endpoint
    def show_key_pair(self, context: RequestContext, name: fields.Name) -> KeyPairView:
        return self._database.read(key_pairs.find, _owner(context), name).to_wire()

    @endpoint
    def delete_key_pair(self, context: RequestContext, name: fields.Name) -> None:
        """Instances that were built with it keep the public key."""
        is_repeated: list[bool] = []

        def remove(tx: Transaction) -> None:
            """Remove the pair. An earlier try of this transaction may have removed it, if its commit had no answer."""
            try:
                key_pairs.remove(tx, _owner(context), name)
            except errors.NotFound:
                if not is_repeated:
                    raise
            is_repeated.append(True)

        self._database.write(remove)


def _owner(context: RequestContext) -> key_pairs.Owner:
    return context.project_id, context.user_id
