# SPDX-License-Identifier: Apache-2.0
"""nova's dotted path of :mod:`scheduler.compute.drivers.chance`."""

from scheduler.compute.drivers.chance import ChanceScheduler as ChanceScheduler
