# SPDX-License-Identifier: Apache-2.0
"""A resize on one host that was confirmed or reverted while the host was down: what the driver has kept for a revert.

Called by :mod:`compute_agent.work.recovery`, and by the steps of later moves (:mod:`compute_agent.work.moves.steps`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from compute_agent.drivers.base import ComputeDriver
from fleet.context import RequestContext
from fleet.objects import Instance


def is_left(guest: Mapping[str, object]) -> bool:
    return bool(guest.get("resized_to"))


def was_confirmed(guest: Mapping[str, object], instance: Instance) -> bool:
    """:param instance: with the size that the ledger has: if the guest has it, too, the resize was confirmed"""
    flavor = instance.flavor
    sizes = {"vcpus": flavor.vcpus, "memory_mb": flavor.memory_mb, "disk_gb": flavor.claimed_disk_gb}
    return guest.get("resized_to") == sizes


def step(
    context: RequestContext, driver: ComputeDriver, instance: Instance, guest: Mapping[str, object]
) -> tuple[str, functools.partial[None]]:
    """Return the step that is left, in words for the log, and as a call of the driver."""
    if was_confirmed(guest, instance):
        return "Forgetting the former size of", functools.partial(driver.forget_former_size, context, instance.uuid)
    return "Undoing the resize of", functools.partial(driver.finish_revert_migration, context, instance)
