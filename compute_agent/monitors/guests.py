# SPDX-License-Identifier: Apache-2.0
"""Turns on the loads of single guests. :mod:`compute_agent.node.guest_loads` measures them, with the driver."""

from __future__ import annotations

from collections.abc import Mapping

from compute_agent.monitors.base import Monitor


class GuestMonitor(Monitor):
    """Measures nothing of the machine. With it the agent reports the loads of its guests, which balancing reads."""

    of_guests = True

    def measure(self) -> Mapping[str, float]:
        return {}
