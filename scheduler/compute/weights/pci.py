# SPDX-License-Identifier: Apache-2.0
"""Keeps hosts with PCI devices free for instances that need them. :mod:`scheduler.engine.weighing.weighers` calls it."""

from __future__ import annotations

import numpy

from scheduler.compute.weights.base import ColumnWeigher

_MOST = 99


class PCIWeigher(ColumnWeigher):
    """The fewer free PCI devices the better: others keep off hosts that have some, and who needs some fills them up.

    More than 99 count as 99, as in nova.
    """

    option = "pci_weight_multiplier"
    column = "free_pci_devices"

    def raw_of(self, numbers: numpy.ndarray) -> numpy.ndarray:
        return 100 - numpy.minimum(numbers, _MOST)
