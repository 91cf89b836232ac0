# SPDX-License-Identifier: Apache-2.0
"""The cache of storage pools. The drivers beside it read it."""

from __future__ import annotations

from scheduler.state import host_manager
from scheduler.volumes.domain.domain import POOLS


class HostManager(host_manager.HostManager):
    """Follows pools, their backends and the volumes on them. The name is cinder's."""

    domain = POOLS
