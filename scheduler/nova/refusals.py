# SPDX-License-Identifier: Apache-2.0
"""Nodes for which placement answers every request with an error. Decisions leave them out for a while.

Called by :mod:`scheduler.nova.placing`. Such a node often looks emptiest, because it takes no instance. It would then
be the first choice of every request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from oslo_log import log as logging

from scheduler.engine.hosts.table import Key

LOG = logging.getLogger(__name__)
#: Seconds for which a node is left out.
LEFT_OUT_S = 60.0


class Refusals:
    """Several threads use it. :param clock: seconds that only grow"""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until: dict[Key, float] = {}

    def add(self, key: Key, node_uuid: str) -> None:
        now = self._clock()
        with self._lock:
            is_new = self._until.get(key, 0.0) <= now
            self._until[key] = now + LEFT_OUT_S
        if is_new:
            LOG.warning(
                "Node %s of host %s is left out for %g s: placement refuses allocations on its resource provider %s. Does "
                "'openstack resource provider show' know it? nova-compute makes it anew when it is restarted",
                *(*reversed(key), LEFT_OUT_S, node_uuid),
            )

    def nodes(self) -> tuple[Key, ...]:
        """Return the nodes that are left out now."""
        now = self._clock()
        with self._lock:
            self._until = {key: until for key, until in self._until.items() if until > now}
            return tuple(sorted(self._until))
