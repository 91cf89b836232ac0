# SPDX-License-Identifier: Apache-2.0
"""nova's dotted path of :mod:`scheduler.compute.drivers.host_manager`.

Files of operators name it, and drivers of others import it.
"""

from scheduler.compute.drivers.host_manager import HostManager as HostManager
from scheduler.compute.drivers.host_manager import HostState as HostState
