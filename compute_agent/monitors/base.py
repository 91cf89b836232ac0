# SPDX-License-Identifier: Apache-2.0
"""The interface of a monitor. The monitors beside it implement it, and each report of a host reads them."""

from __future__ import annotations

from collections.abc import Mapping

from oslo_config import cfg


class Monitor:
    """Measures something on this machine. An agent creates one, and calls it at each audit from one thread."""

    #: True if the agent reports the loads of single guests with this monitor.
    of_guests = False

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf

    def measure(self) -> Mapping[str, float]:
        """Return the value of each metric by its name, as ``[metrics] weight_setting`` refers to it.

        If the method is missing, the first audit logs an error. If it raises, the log has one line, and this monitor
        has no metrics.
        """
        raise NotImplementedError
