# SPDX-License-Identifier: Apache-2.0
"""The part of the driver that resizes guests and moves them while they are off.

:mod:`compute_agent.drivers.libvirt.driver` inherits it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from oslo_log import log as logging

from compute_agent.drivers.guest_record import GuestRecord
from compute_agent.drivers.libvirt.access import explained, require_openable
from compute_agent.drivers.libvirt.domains import peer, power
from compute_agent.drivers.libvirt.switching import Switching
from fleet import errors, states
from fleet.agent import time_limit
from fleet.context import RequestContext
from fleet.objects import Attachment, Flavor, Image, Instance

LOG = logging.getLogger(__name__)


class Resizes(Switching):
    def migrate_disk_and_power_off(
        self, context: RequestContext, instance: Instance, dest: str, flavor: Flavor
    ) -> None:
        record = self._record(instance.uuid)
        if dest != self._host and not self._options.migration_uri:
            raise errors.NotSupported(
                what=f"A move from {self._host} to another host, {dest}, without [libvirt] migration_uri",
                driver="the driver libvirt",
            )
        self._disks.require_no_smaller(instance, flavor)
        self._disks.clear(instance.uuid)
        self._disks.keep(dataclasses.replace(record, power_state=states.SHUTDOWN))
        self.power_off(context, instance)
        if dest != self._host:
            self._disks.show(instance.uuid)
            self._open_directory(instance.uuid)

    def fetch_disks(
        self, context: RequestContext, instance: Instance, source: str, move: str, progress: Callable[[int], object]
    ) -> None:
        record, arrived = self._disks.record(instance.uuid), dataclasses.replace(GuestRecord.of(instance), move=move)
        if record is not None and dataclasses.replace(record, volumes={}) == arrived:
            return
        if record is not None:
            LOG.info("Removing what an earlier copy of instance %s has left", instance.uuid)
            self.destroy(context, instance.uuid)
        self._disks.begin(dataclasses.replace(arrived, power_state=states.SHUTDOWN))
        with (
            time_limit.undone(lambda: self._remove_copy(instance.uuid, move)),
            explained(f"The disks cannot be copied from {source}"),
        ):
            with peer.reach(self._connection.open_other, self._uri_of(source), instance.uuid) as files:
                self._disks.receive(instance, self._known_image(context, instance), files, progress)
            self._disks.keep(arrived)

    def _remove_copy(self, uuid: str, move: str) -> None:
        now = self._disks.record(uuid)
        if now is not None and now.move == move:
            self._disks.remove(uuid)

    def finish_migration(
        self,
        context: RequestContext,
        instance: Instance,
        image_meta: Image,
        volumes: Sequence[Attachment] | None = None,
    ) -> None:
        record = self._record(instance.uuid)
        had = record.attachments() if volumes is None else volumes
        require_openable(had)
        now = dataclasses.replace(GuestRecord.of(instance, had), move=record.move)
        domain = self._find(instance.uuid)
        if record == now and domain is not None and self._state(domain) in power.WITH_A_PROCESS:
            return
        with time_limit.undone(lambda: self._switch_back(record)), explained("The guest cannot be resized"):
            if dataclasses.replace(record, volumes=now.volumes) != now:
                # Disks that were copied to this host have the new sizes already; their source keeps the former ones.
                self._disks.grow(instance)
            if record != now:
                self._disks.keep(now)
            self._start(instance)

    def _switch_back(self, record: GuestRecord) -> None:
        """The guest is off, and as it was before it was to be started with its new size."""
        off = dataclasses.replace(record, power_state=states.SHUTDOWN)
        try:
            self._disks.keep(off)
        except OSError:
            # The file system may be full until the disks are as before.
            self._undo_resize(record.uuid)
            self._disks.keep(off)
        else:
            self._undo_resize(record.uuid)

    def forget_former_size(self, context: RequestContext, instance_uuid: str) -> None:
        self._disks.forget_former(instance_uuid)

    def finish_revert_migration(
        self, context: RequestContext, instance: Instance, volumes: Sequence[Attachment] | None = None
    ) -> None:
        record = self._record(instance.uuid)
        had = record.attachments() if volumes is None else volumes
        self._close_directory(instance.uuid)
        if self._disks.is_grown(instance.uuid):
            self._undo_resize(instance.uuid)
        self._disks.keep(GuestRecord.of(instance, had))
        # Its owner may have stopped it while its move was undone.
        if instance.vm_state not in states.AT_REST:
            self.power_on(context, instance)
