# SPDX-License-Identifier: Apache-2.0
"""This machine as a host of virtual machines: one libvirt domain, and one directory, for each instance.

``compute_driver = libvirt`` names it. libvirt has the state of a domain, and the directory the record of the guest:
an agent that starts again finds both. A domain without a directory and without our mark belongs to something else: it
is reported, and never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from compute_agent.drivers import guest_record
from compute_agent.drivers.base import FindBootData, FindImage, GuestInfo, GuestUse
from compute_agent.drivers.guest_record import GuestRecord
from compute_agent.drivers.libvirt.access import explained, require_openable
from compute_agent.drivers.libvirt.attaching import Attaching
from compute_agent.drivers.libvirt.disks.guest_disks import CONSOLE
from compute_agent.drivers.libvirt.domains import power, usage
from compute_agent.drivers.libvirt.inventory import Inventory
from compute_agent.drivers.libvirt.live_moves import LiveMoves
from compute_agent.drivers.libvirt.resizes import Resizes
from fleet import errors, states
from fleet.agent import time_limit
from fleet.context import RequestContext
from fleet.objects import Attachment, BootData, Image, ImageRecord, Instance

if TYPE_CHECKING:
    import libvirt


class LibvirtDriver(Inventory, Resizes, LiveMoves, Attaching):
    """Its parts, and how a guest is built, taken over and looked at."""

    def use_images(self, find: FindImage) -> None:
        self._find_image = find

    def use_boot_data(self, find: FindBootData) -> None:
        self._find_boot_data = find

    def register_event_listener(self, changed: Callable[[str], object]) -> None:
        self._connection.listen(changed)

    def spawn(
        self, context: RequestContext, instance: Instance, image_meta: Image, volumes: Sequence[Attachment] = ()
    ) -> None:
        require_openable(volumes)
        image = self._image_of(context, instance, image_meta)
        data = self._find_boot_data(context, instance.uuid) if self._find_boot_data else BootData()
        self._disks.begin(GuestRecord.of(instance, volumes))
        with (
            time_limit.undone(lambda: self._undo(context, instance)),
            explained("The guest cannot be made"),
        ):
            self._disks.fill(instance, image, data)
            self._start(instance)

    def rebuild(
        self, context: RequestContext, instance: Instance, image_meta: Image, volumes: Sequence[Attachment] = ()
    ) -> None:
        """The former guest goes only when the image is here, and may be used."""
        require_openable(volumes)
        image = self._image_of(context, instance, image_meta)
        with explained("The guest cannot be made"):
            self._disks.fetch(instance, image)
        super().rebuild(context, instance, image_meta, volumes)

    def _undo(self, context: RequestContext, instance: Instance) -> None:
        """The guest may be that of a later attempt, as after work that was given up."""
        record = self._disks.record(instance.uuid)
        if record is None or record.attempt == instance.attempt:
            self.destroy(context, instance.uuid)

    def _image_of(self, context: RequestContext, instance: Instance, image: Image) -> ImageRecord:
        """:raises errors.BuildAbort: no host could find the bytes"""
        if not image.id or self._find_image is None:
            reason = "a virtual machine boots from an image: name one that 'fleet image list' shows"
            raise errors.BuildAbort(instance_uuid=instance.uuid, reason=reason)
        try:
            return self._find_image(context, image.id)
        except errors.NotFound as unknown:
            raise errors.BuildAbort(instance_uuid=instance.uuid, reason=unknown.message) from None

    def take_over(
        self, context: RequestContext, instance: Instance, source: str, volumes: Sequence[Attachment] = ()
    ) -> bool:
        """QEMU locks the images that it has open: where the guest still runs on its old host, it does not start here.

        A guest at rest is not started: if this evacuation fails, its old host still has the memory of a suspended guest,
        which fits only the disks as they are now.
        """
        there = self._shared_guests(source)
        if there is None:
            return False
        require_openable(volumes)
        self._disks.begin(GuestRecord.of(instance, volumes))
        with (
            time_limit.undone(lambda: self._undo(context, instance)),
            explained(f"The guest cannot be started from its disks of {source}"),
        ):
            self._disks.adopt(instance, there)
            if instance.vm_state not in states.AT_REST:
                self._start(instance)
        return True

    def get_info(self, instance_uuid: str) -> GuestInfo:
        domain = self._find(instance_uuid)
        record = self._disks.record(instance_uuid)
        if domain is None and record is None:
            raise errors.NotFound(kind="Guest", name=instance_uuid)
        if domain is None:
            return GuestInfo(state=states.SHUTDOWN)
        return self._connection.call(lambda _connection: _info(domain))

    def get_guest_uses(self) -> dict[str, GuestUse]:
        known = self._disks.records()
        uses = self._connection.call(usage.of_running)
        return {uuid: use for uuid, use in uses.items() if uuid in known}

    def get_console_output(self, context: RequestContext, instance_uuid: str, most_bytes: int) -> bytes:
        return guest_record.log_end(instance_uuid, self._disks.of(instance_uuid) / CONSOLE, most_bytes)


def _info(domain: libvirt.virDomain) -> GuestInfo:
    _state, max_kb, kb, cpus, cpu_time_ns = domain.info()
    return GuestInfo(state=power.state_of(domain), max_mem_kb=max_kb, mem_kb=kb, num_cpu=cpus, cpu_time_ns=cpu_time_ns)
