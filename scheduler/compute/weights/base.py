# SPDX-License-Identifier: Apache-2.0
"""The two base classes of weighers for virtual machines: nova's form, and the form over columns.

The weighers beside it inherit from it.
"""

from __future__ import annotations

from typing import ClassVar

import numpy

from fleet.objects import RequestSpec
from scheduler.compute.domain import aggregate_overrides, nova_form
from scheduler.engine import plugins
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.plugins import BaseHostWeigher, WeighedHost

__all__ = ["BaseHostWeigher", "ColumnWeigher", "WeighedHost"]


class ColumnWeigher(plugins.ColumnWeigher[RequestSpec]):
    __doc__ = plugins.ColumnWeigher.__doc__

    one_host: ClassVar[plugins.OneHost] = nova_form
    cacheable = True

    def multiplier(self, hosts: Candidates) -> float | numpy.ndarray:
        """Return how much this weigher counts: one number, or one for each of ``hosts`` if aggregates set their own.

        The aggregates' metadata key is the name of the option. Of several aggregates of a host, the smallest number
        counts, as in nova since Stein.
        """
        return aggregate_overrides.number(hosts, self.option, self._multiplier)
