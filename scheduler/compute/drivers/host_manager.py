# SPDX-License-Identifier: Apache-2.0
"""The host manager for virtual machines: the path that ``scheduler_host_manager`` and plugins name."""

from __future__ import annotations

from scheduler.compute.domain.host_state import HostState
from scheduler.compute.domain.virtual_machines import VIRTUAL_MACHINES
from scheduler.compute.drivers.host_lists import HostLists
from scheduler.state import host_manager

__all__ = ["HostManager", "HostState"]


class HostManager(host_manager.HostManager, HostLists):
    """The cache of compute nodes, with the methods of nova's host manager. A subclass passes all arguments on."""

    domain = VIRTUAL_MACHINES
