# SPDX-License-Identifier: Apache-2.0
"""Long lists of instances, asked for in parts: an answer of the conductor has a limit of bytes.

Called by :mod:`fleet_cli.servers.servers`.
"""

from __future__ import annotations

from fleet import errors
from fleet.client.calls import Calls
from fleet.client.connection import Record
from fleet.json_codec import JSONMapping

#: The largest instances that there can be are then less than an answer may have.
_BATCH = 200


def instances(conductor: Calls, filters: JSONMapping, most: int | None = None) -> list[Record]:
    """Return the instances, the oldest first. :param most: only that many; None: all"""
    found: list[Record] = []
    while True:
        wanted = _BATCH if most is None else min(_BATCH, most - len(found))
        after = {"marker": found[-1]["uuid"]} if found else {}
        try:
            part = conductor.operator.list_instances(filters=dict(filters), limit=wanted, **after)
        except errors.VersionPinned:
            # A conductor that is too old for markers answers with all.
            found, part = [], conductor.operator.list_instances(filters=dict(filters))
        found += part
        # One that is too old for a limit as well.
        if len(part) != wanted or len(found) == most:
            return found[:most]
