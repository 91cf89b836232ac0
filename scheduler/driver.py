# SPDX-License-Identifier: Apache-2.0
"""nova's dotted path of :mod:`scheduler.compute.drivers.driver`. Drivers of others import it."""

from scheduler.compute.drivers.driver import Scheduler as Scheduler
