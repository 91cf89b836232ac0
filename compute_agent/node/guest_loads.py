# SPDX-License-Identifier: Apache-2.0
"""The loads of single guests, from their processor times.

:mod:`compute_agent.ledger.reporter` takes a sample with each audit, if ``compute_monitors`` has ``guests``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from oslo_log import log as logging

from compute_agent.drivers.base import ComputeDriver

LOG = logging.getLogger(__name__)

_NS_PER_S = 1e9
#: Seconds after which a measurement weighs 1/e of a new one. Guests have peaks of some minutes, which move nothing.
_LASTING_S = 480.0


class GuestLoads:
    """Loads of the guests of one host since the last sample."""

    def __init__(self, driver: ComputeDriver, clock: Callable[[], float] = time.monotonic) -> None:
        self._driver = driver
        self._clock = clock
        self._before: dict[str, tuple[float, int]] = {}
        self._lasting: dict[str, float] = {}

    def sample(self) -> dict[str, dict[str, float]]:
        """Return ``cores`` that each guest kept busy, the ``lasting`` mean of it, and ``memory_mb`` that it uses if known.

        A guest that is new, or has booted again, is left out. So are all if the driver fails, which is one line in the log.
        """
        try:
            now, found = self._clock(), self._driver.get_guest_uses()
        except Exception as failure:
            LOG.warning("The loads of guests cannot be read: %s: %s", type(failure).__name__, failure)
            return {}
        before, self._before = self._before, {uuid: (now, use.cpu_time_ns) for uuid, use in found.items()}
        loads = {}
        for uuid, use in found.items():
            then, used_ns = before.get(uuid, (now, use.cpu_time_ns))
            if now > then and use.cpu_time_ns >= used_ns:
                cores = (use.cpu_time_ns - used_ns) / _NS_PER_S / (now - then)
                lasting = self._lasting.get(uuid, cores)
                lasting += (1 - math.exp((then - now) / _LASTING_S)) * (cores - lasting)
                known = {} if use.memory_mb is None else {"memory_mb": float(use.memory_mb)}
                loads[uuid] = {"cores": round(cores, 3), "lasting": round(lasting, 3), **known}
        self._lasting = {uuid: load["lasting"] for uuid, load in loads.items()}
        return loads
