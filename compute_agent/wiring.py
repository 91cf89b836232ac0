# SPDX-License-Identifier: Apache-2.0
"""Puts together what works on one host. :mod:`compute_agent.main` calls it; the simulation does, with fakes."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

from compute_agent.agent import Calls
from compute_agent.ledger.notifications import Notifications
from compute_agent.manager import ComputeManager
from compute_agent.node.host import Host
from compute_agent.work.attach import Attacher
from compute_agent.work.build import BuildRunner
from compute_agent.work.moves.mover import Mover
from compute_agent.work.power import PowerSwitch
from compute_agent.work.termination import Termination
from compute_agent.work.turns import Turns
from fleet.agent import time_limit
from fleet.agent.work_queues import WorkQueues


def manager_of(
    host: Host,
    calls: Calls,
    notifications: Notifications,
    queues: WorkQueues,
    clock: Callable[[], float] = time.monotonic,
    within: time_limit.Within = time_limit.run_within,
) -> ComputeManager:
    """Return the endpoint of ``host``, whose driver then finds images and boot data in the ledger.

    :param clock: seconds, for how long work takes
    :param within: runs the work of a driver that may hang
    """
    turns = Turns()
    host.driver.use_images(calls.builds.find_image)
    host.driver.use_boot_data(functools.partial(calls.builds.find_boot_data, host=host.name))
    return ComputeManager(
        host,
        BuildRunner(host, calls.builds, notifications, clock, within),
        Mover(host, calls.moves, notifications, clock, within, queues.give_back_slot),
        Termination(host, calls.builds, calls.moves, queues),
        PowerSwitch(host, calls.builds, notifications, within, turns),
        Attacher(host, calls.builds, within, turns),
        queues,
    )
