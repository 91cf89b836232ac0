# SPDX-License-Identifier: Apache-2.0
"""Sends the request context with each message.

All clients and servers of the contract use it. The values of a message are JSON already.
"""

from __future__ import annotations

import oslo_messaging

from fleet import context as fleet_context
from fleet.json_codec import JSONObject
from fleet.ledger_identity import LedgerIdentity

#: Key of a message's context: the ledger that its sender works for.
LEDGER = "fleet_ledger"
#: Limit of characters of a context's value and of members of a list; columns of ids have the same limit.
LONGEST = 255


class ContextSerializer(oslo_messaging.NoOpSerializer):
    """A missing or unusable context is replaced by a new one, so that every handler has a request id to log.

    A sender that does not say that it acts for a project (``is_admin`` false) is the administrator.

    :param ledger: the ledger's uuid is added to each context once it is known
    """

    def __init__(self, ledger: LedgerIdentity | None = None) -> None:
        super().__init__()
        self._ledger = ledger or LedgerIdentity()

    def serialize_context(self, ctxt: fleet_context.RequestContext) -> dict[str, object]:
        # What is not set is not sent: more than half of all.
        values = {name: value for name, value in ctxt.to_dict().items() if value is not None}
        ledger = self._ledger.uuid
        return values if ledger is None else {**values, LEDGER: ledger}

    def deserialize_context(self, ctxt: JSONObject) -> fleet_context.RequestContext:
        try:
            sound = {key: each for key, each in ctxt.items() if _is_sound(each)}
            return fleet_context.RequestContext.from_dict({"is_admin": True, **sound})
        except (TypeError, AttributeError, ValueError):
            return fleet_context.new_context()


def _is_sound(value: object) -> bool:
    """Return True if ``value`` may be written to a log line and a row: short printable text, a flag, a number, or a list
    of texts.
    """
    if isinstance(value, str):
        return len(value) <= LONGEST and value.isprintable()
    if isinstance(value, list):
        return len(value) <= LONGEST and all(isinstance(each, str) and _is_sound(each) for each in value)
    return value is None or isinstance(value, bool) or (isinstance(value, int) and 0 <= value < 2**31)
