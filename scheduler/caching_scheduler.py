# SPDX-License-Identifier: Apache-2.0
"""nova's dotted path of :mod:`scheduler.compute.drivers.caching_scheduler`. Files of operators name it."""

from scheduler.compute.drivers.caching_scheduler import CachingScheduler as CachingScheduler
