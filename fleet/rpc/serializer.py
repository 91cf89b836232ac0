# SPDX-License-Identifier: Apache-2.0
"""Carries the request context across the wire; values are JSON already."""

from __future__ import annotations

from typing import Any

import oslo_messaging

from fleet import context as fleet_context
from fleet.ledger_identity import LedgerIdentity

#: Of a message's context: which ledger its sender works for.
LEDGER = "fleet_ledger"


class ContextSerializer(oslo_messaging.NoOpSerializer):
    """A missing or foreign context becomes a fresh one, so that every handler has a request id to log.

    :param ledger: sent along, as far as it is known
    """

    def __init__(self, ledger: LedgerIdentity | None = None) -> None:
        super().__init__()
        self._ledger = ledger or LedgerIdentity()

    def serialize_context(self, ctxt: fleet_context.RequestContext) -> dict[str, Any]:
        ledger = self._ledger.uuid
        return ctxt.to_dict() if ledger is None else {**ctxt.to_dict(), LEDGER: ledger}

    def deserialize_context(self, ctxt: dict[str, Any]) -> fleet_context.RequestContext:
        try:
            return fleet_context.RequestContext.from_dict(ctxt)
        except (TypeError, AttributeError):
            return fleet_context.new_context()
