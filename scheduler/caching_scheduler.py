# SPDX-License-Identifier: Apache-2.0
"""Filters and weighers over host states that a request does not wait for."""

from __future__ import annotations

import contextlib

from scheduler.filter_scheduler import FilterScheduler


class CachingScheduler(FilterScheduler):
    """Host states are refreshed by the periodic task only; between refreshes, what is booked is counted.

    Room that is given back is seen at the next refresh.
    """

    def run_periodic_tasks(self, context: object = None) -> None:
        self.host_manager.refresh()

    def refresh(self) -> None:
        """A hint does not shorten the period."""

    def expecting(self) -> contextlib.AbstractContextManager[None]:
        """Nothing: a request does not ask."""
        return contextlib.nullcontext()

    def _update_host_states(self) -> None:
        """What could not be read at its time is not waited for either, but must not grow too old."""
        if not self.host_manager.loaded or self.host_manager.stale:
            self.host_manager.refresh()
