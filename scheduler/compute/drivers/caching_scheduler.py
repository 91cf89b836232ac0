# SPDX-License-Identifier: Apache-2.0
"""A driver whose requests do not wait for the newest host states. ``scheduler_driver`` names it."""

from __future__ import annotations

from scheduler.compute.drivers.filter_scheduler import FilterScheduler


class CachingScheduler(FilterScheduler):
    """The periodic task alone refreshes host states. Between refreshes, bookings are counted.

    Capacity that is given back is seen at the next refresh.
    """

    def run_periodic_tasks(self, context: object = None) -> None:
        self.host_manager.refresh()

    def refresh(self) -> None:
        """Do nothing: a hint does not shorten the period."""

    def _update_host_states(self) -> None:
        """Read the feed only if the periodic read has not succeeded: states must not grow too old."""
        if not self.host_manager.loaded or self.host_manager.stale:
            self.host_manager.refresh()
