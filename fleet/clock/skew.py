# SPDX-License-Identifier: Apache-2.0
"""The difference between this machine's clock and the database's, which deadlines and leases use.

All daemons measure it at start and by a periodic task.
"""

from __future__ import annotations

from oslo_log import log as logging

from fleet import errors

LOG = logging.getLogger(__name__)


class ClockSkew:
    """Stores the newest measurement. Thread-safe.

    A daemon's decisions use the database's time. If its own clock differs too much, the daemon is nevertheless not
    ready, and leaves sweeps and evacuations to others, because its logs and signatures have the wrong time.

    :param most_s: the option ``max_clock_skew``; 0 turns the check off
    """

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._offset_s = 0.0
        self._is_off = False

    def note(self, offset_s: float, uncertain_s: float = 0.0) -> None:
        """Store how far this clock is ahead of the database's, with an error of ``uncertain_s``."""
        self._offset_s = offset_s
        is_off = bool(self._most_s) and abs(offset_s) - uncertain_s > self._most_s
        before, self._is_off = self._is_off, is_off
        if is_off and not before:
            LOG.error("%s Run a time service here.", self.problem)
        elif before and not is_off:
            LOG.info("The clock of this machine agrees with the database's again")

    @property
    def reported_s(self) -> float:
        """Whole seconds for the service record; 0 while the difference is within bounds."""
        return float(round(self._offset_s)) if self._is_off else 0.0

    @property
    def problem(self) -> str:
        """A sentence; "" while the difference is within bounds."""
        if not self._is_off:
            return ""
        ahead = "ahead of" if self._offset_s > 0 else "behind"
        return (
            f"The clock of this machine is {abs(self._offset_s):.1f} s {ahead} the database's, max_clock_skew is "
            f"{self._most_s:g} s."
        )

    def require_in_step(self) -> None:
        """Check the clock; also a probe of the health page. :raises errors.ClockSkewed:"""
        if self._is_off:
            raise errors.ClockSkewed(problem=self.problem)
