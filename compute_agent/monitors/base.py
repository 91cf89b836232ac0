# SPDX-License-Identifier: Apache-2.0
"""The interface of a monitor."""

from __future__ import annotations

from collections.abc import Mapping

from oslo_config import cfg


class Monitor:
    """Measures something about this machine. An agent makes one and asks it with each audit, from one thread."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf

    def measure(self) -> Mapping[str, float]:
        """The value of each metric by its name, as ``[metrics] weight_setting`` refers to it.

        Left out: an error at the first audit. An exception: one line in the log, and no metrics of this monitor.
        """
        raise NotImplementedError
