# SPDX-License-Identifier: Apache-2.0
"""nova's dotted path of :mod:`scheduler.compute.drivers.filter_scheduler`.

Files of operators name it, and drivers of others import it.
"""

from scheduler.compute.drivers.filter_scheduler import FilterScheduler as FilterScheduler
