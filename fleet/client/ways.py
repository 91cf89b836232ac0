# SPDX-License-Identifier: Apache-2.0
"""Checks, before anything moves, which guests can leave their hosts while they run.

Called by :mod:`fleet_cli.hosts.emptying`, :mod:`fleet_cli.planning.maintenance` and :mod:`fleet_cli.planning.rebalance`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet import errors
from fleet.client.calls import Calls

#: Instances that one call asks about.
_AT_A_TIME = 1000


def obstacles(conductor: Calls, uuids: Sequence[str]) -> dict[str, str]:
    """Return, by uuid, why a guest cannot leave its host while it runs; "" if it can.

    Conductors of an earlier release do not know. While one of them is up, every guest has that as its reason.
    """
    found: dict[str, str] = {}
    for start in range(0, len(uuids), _AT_A_TIME):
        some = uuids[start : start + _AT_A_TIME]
        try:
            found |= conductor.operator.live_obstacles(uuids=some)
        except errors.VersionPinned as unknown:
            found |= dict.fromkeys(some, f"is not known to be movable while it runs ({unknown.message})")
    return found
