# SPDX-License-Identifier: Apache-2.0
"""nova's dotted path of :mod:`scheduler.compute.drivers.filter_scheduler`."""

from scheduler.compute.drivers.filter_scheduler import FilterScheduler as FilterScheduler
