# SPDX-License-Identifier: Apache-2.0
"""nova's dotted path of :mod:`scheduler.compute.filters`.

Files of operators name it, and filters of others import it.
"""

from scheduler.compute import filters
from scheduler.compute.filters import *  # noqa: F403
from scheduler.loading.face import show

globals().update(show(__name__, filters))
