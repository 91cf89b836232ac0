# SPDX-License-Identifier: Apache-2.0
"""The host manager over nova's databases: a background task polls them, and no request waits for a query.

Called by the modules beside it and those of :mod:`scheduler.nova.shadow`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.compute.drivers.host_manager import HostManager
from scheduler.nova.domain import NOVA_MACHINES

if TYPE_CHECKING:
    _Base = HostManager
else:
    _Base = object


class Polled(_Base):
    """Mixed into the configured host manager. ``refresh`` reads only while nothing, or nothing young enough, is known."""

    def refresh(self) -> None:
        """:raises errors.StaleState: the databases cannot be read, and what is known is too old"""
        if not self.loaded or self._age_s() > self._max_state_age_s:
            super().refresh()
        self._require_known()

    def poll(self) -> None:
        """Read the changes. A failure is kept, and raised by the next requests."""
        with self._turnstile:
            self._reads_begun += 1
            self._read(self._reads_begun)


def polled(found: type[HostManager]) -> type[HostManager]:
    """Return the configured host manager for the domain of nova's machines."""
    return type(found.__name__, (Polled, found), {"domain": NOVA_MACHINES})
