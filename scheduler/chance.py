# SPDX-License-Identifier: Apache-2.0
"""nova's dotted path of :mod:`scheduler.compute.drivers.chance`. Files of operators name it."""

from scheduler.compute.drivers.chance import ChanceScheduler as ChanceScheduler
