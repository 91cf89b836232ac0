# SPDX-License-Identifier: Apache-2.0
"""The part of the driver that switches guests on and off, and saves their memory.

:mod:`compute_agent.drivers.libvirt.resizes` inherits it, since a move switches its guest off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_log import log as logging

from compute_agent.drivers.base import SpawnFailed
from compute_agent.drivers.libvirt.access import GuestAccess
from compute_agent.drivers.libvirt.domains import part, power
from fleet import states
from fleet.context import RequestContext
from fleet.objects import Instance

if TYPE_CHECKING:
    import libvirt

LOG = logging.getLogger(__name__)

#: Part of ``driver_timeout`` that saving the memory of a guest may take.
_SAVE_SHARE = 0.8


class Switching(GuestAccess):
    def power_on(self, context: RequestContext, instance: Instance) -> None:
        """Start the guest. Without saved memory its domain is defined anew: the definition may be lost, or outdated."""
        domain = self._require(instance.uuid)
        if domain is not None and self._state(domain) in power.WITH_A_PROCESS:
            return
        if domain is not None and self._has_memory(domain):
            self._connection.call(lambda _connection: domain.create())
        else:
            self._start(instance)

    def _has_memory(self, domain: libvirt.virDomain) -> bool:
        return bool(self._connection.call(lambda _connection: domain.hasManagedSaveImage()))

    def suspend(self, context: RequestContext, instance: Instance) -> None:
        """libvirt saves the memory in a file of its own, and QEMU ends."""
        domain = self._require(instance.uuid)
        if domain is not None and self._state(domain) in power.WITH_A_PROCESS:
            # Before the agent gives up: a guest that is saved later would be off while its row is ACTIVE.
            limit_s = self.conf.driver_timeout * _SAVE_SHARE
            self._connection.call(lambda _connection: power.save(domain, limit_s))
        elif domain is None or not self._has_memory(domain):
            raise SpawnFailed("The guest does not run")

    def resume(self, context: RequestContext, instance: Instance) -> None:
        domain = self._require(instance.uuid)
        if domain is None or not (self._has_memory(domain) or self._state(domain) in power.WITH_A_PROCESS):
            LOG.warning("The memory of instance %s is lost: its guest boots", instance.uuid)
        self.power_on(context, instance)

    def power_off(self, context: RequestContext, instance: Instance) -> None:
        domain = self._require(instance.uuid)
        if domain is None:
            return
        if self._connection.call(lambda _connection: part.of(domain).is_half):
            # Without all of its memory it cannot shut itself down.
            self._connection.call(lambda _connection: power.force_off(domain))
        elif self._state(domain) in power.WITH_A_PROCESS:
            self._connection.call(lambda _connection: power.shut_down(domain, self._options.shutdown_timeout))
        if self._state(domain) == states.CRASHED:
            # Without a definition it is off.
            self._connection.call(lambda _connection: power.remove(domain))

    def reboot(self, context: RequestContext, instance: Instance, hard: bool = False) -> None:
        domain = self._require(instance.uuid)
        if hard and domain is not None:
            self._connection.call(lambda _connection: power.force_off(domain))
            self._connection.call(lambda _connection: power.forget_memory(domain))
        else:
            self.power_off(context, instance)
        self.power_on(context, instance)
