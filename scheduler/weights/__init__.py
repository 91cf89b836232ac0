# SPDX-License-Identifier: Apache-2.0
"""nova's dotted path of :mod:`scheduler.compute.weights`.

Files of operators name it, and weighers of others import it.
"""

from scheduler.compute import weights
from scheduler.compute.weights import *  # noqa: F403
from scheduler.loading.face import show

globals().update(show(__name__, weights))
