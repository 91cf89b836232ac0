# SPDX-License-Identifier: Apache-2.0
"""The part of the driver that moves guests while they run. :mod:`compute_agent.drivers.libvirt.driver` inherits it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from oslo_log import log as logging

from compute_agent.drivers.base import DestinationUnreachable, LiveMigrationFailed, SpawnFailed
from compute_agent.drivers.guest_record import GuestRecord
from compute_agent.drivers.libvirt.access import GuestAccess, explained, require_openable
from compute_agent.drivers.libvirt.disks.guest_disks import SHARED_MARK
from compute_agent.drivers.libvirt.disks.opened import OPENED
from compute_agent.drivers.libvirt.domains import live, part, peer, power
from compute_agent.drivers.libvirt.domains.capabilities import Capabilities
from compute_agent.drivers.libvirt.domains.connection import Unreachable, library
from compute_agent.drivers.libvirt.domains.part import Part
from fleet import failpoints, states
from fleet.agent import time_limit
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import Attachment, Instance

if TYPE_CHECKING:
    import libvirt

LOG = logging.getLogger(__name__)

#: Seconds within which both hosts notice the end of a post-copy.
_SETTLE_S = 5.0


class LiveMoves(GuestAccess):
    def pre_live_migration(
        self, context: RequestContext, instance: Instance, source: str, volumes: Sequence[Attachment] = ()
    ) -> None:
        """Prepare for the guest, which arrives only after this call. Files of an earlier try are removed first."""
        require_openable(volumes)
        if self._disks.record(instance.uuid) is not None:
            self.destroy(context, instance.uuid)
        self._disks.begin(dataclasses.replace(GuestRecord.of(instance, volumes), arriving=True))
        with (
            time_limit.undone(lambda: self.destroy(context, instance.uuid)),
            explained(f"The guest cannot be received from {source}"),
            peer.connected(self._connection.open_other, self._uri_of(source)) as there,
        ):
            layout = live.Layout.of(there.lookupByUUIDString(instance.uuid))
            if not self._link(instance, source, layout):
                self._receive(context, instance, there, layout)
            self._open_directory(instance.uuid)

    def _link(self, instance: Instance, source: str, layout: live.Layout) -> bool:
        """Link the disks of a guest whose host has them on the storage of this one. Return False if they are elsewhere."""
        there = self._shared_guests(source)
        if there is None or layout.directory != there / instance.uuid:
            return False
        self._disks.adopt(instance, there)
        self._disks.mark_shared(instance.uuid)
        return True

    def _receive(self, context: RequestContext, instance: Instance, there: object, layout: live.Layout) -> None:
        peer.open_directory(there, instance.uuid, layout.directory / OPENED)
        try:
            files = peer.files_in(there, instance.uuid)
            image = self._known_image(context, instance)
            self._disks.prepare(instance, image, files, layout.sizes, layout.base_format)
        finally:
            peer.close_directory(there, instance.uuid)

    def live_migration(
        self,
        context: RequestContext,
        instance: Instance,
        dest: str,
        progress: Callable[[int], object],
        begin: bool = True,
        cells: JSONObject | None = None,
    ) -> None:
        self._record(instance.uuid)
        why, domain = "no migration of it is under way", self._find(instance.uuid)
        if domain is None:
            self._require_arrived(instance.uuid, dest)
            return
        post_copy = self._options.live_migration_permit_post_copy
        followed = self._connection.call(lambda _connection: live.follow(domain, progress, post_copy))
        interrupted = not followed and self._is_interrupted(domain)
        if interrupted and self._has_left(domain, instance.uuid, dest):
            return
        if followed:
            why = "its migration has ended"
        elif begin or interrupted:
            runs = interrupted or self._state(domain) == states.RUNNING
            why = self._migrate(domain, instance.uuid, dest, progress, cells) if runs else "it does not run"
        left = self._find(instance.uuid)
        if left is None and why:
            self._require_arrived(instance.uuid, dest)
            return
        if why and self._ended_halfway(instance.uuid, dest):
            return
        self._connection.call(lambda _connection: live.has_left(left, why))

    def _require_arrived(self, uuid: str, dest: str) -> None:
        """Ask the destination for a guest that libvirt does not have here: it has left, or its domain was removed by hand.

        :raises LiveMigrationFailed: the destination has no such domain
        :raises DestinationUnreachable: it is unknown
        :raises RuntimeError: the destination has not received it to its end
        """
        try:
            with peer.connected(self._connection.open_other, self._uri_of(dest)) as there:
                found = self._settled(lambda: part.on(there, uuid))
        except Unreachable as away:
            raise DestinationUnreachable(
                f"The guest is not here, and the libvirt of {dest} does not answer: {away}"
            ) from away
        if found is Part.NONE:
            raise LiveMigrationFailed(f"Neither this host nor {dest} has a domain of the guest")
        if found is Part.CUT_OFF:
            LOG.warning(
                "Guest %s counts as moved to %s, which has a part of its memory, and its newest disks", uuid, dest
            )
        elif found.is_moving:
            raise RuntimeError(f"The guest is not here, and {dest} still receives the guest")

    def is_halfway(self, instance_uuid: str) -> bool:
        return self._part(instance_uuid).is_half

    def waits_for(self, instance_uuid: str, host: str) -> bool:
        if not self.is_halfway(instance_uuid):
            return False
        if self._part_on(host, instance_uuid).is_moving:
            return self.is_halfway(instance_uuid)
        return self._settled(lambda: self._part(instance_uuid)) is Part.HALF

    def has_arrived(self, instance_uuid: str) -> bool:
        return self._part(instance_uuid).has_arrived

    def _part_on(self, host: str, uuid: str) -> Part:
        try:
            with peer.connected(self._connection.open_other, self._uri_of(host)) as there:
                return part.on(there, uuid)
        except (SpawnFailed, library().libvirtError) as failure:
            LOG.warning("The part of guest %s on %s is unknown: %s", uuid, host, failure)
            return Part.UNKNOWN

    def _settled(self, look: Callable[[], Part]) -> Part:
        """Return the part that a host has when the other one has ended the migration.

        QEMU may complete a post-copy that libvirt has given up. Each host then notices it in its own time.
        """
        found = look()
        if found is Part.CUT_OFF:
            time.sleep(_SETTLE_S)
            found = look()
        return found

    def _part(self, uuid: str) -> Part:
        found: Part = self._connection.call(lambda connection: part.on(connection, uuid))
        return found

    def _has_left(self, domain: libvirt.virDomain, uuid: str, dest: str) -> bool:
        """Return True if the guest of an interrupted post-copy is on the destination: whole, or off by now.

        If it is off there, what is here of its memory is worth nothing, and is ended. Its disks are newer there.

        :raises LiveMigrationFailed: the destination does not have the guest any more: it is switched off
        """
        there = self._part_on(dest, uuid)
        if there is Part.WHOLE or there.is_moving:
            return there is Part.WHOLE
        LOG.warning("Guest %s is switched off: a part of its memory is lost on %s", uuid, dest)
        self._connection.call(lambda _connection: power.force_off(domain))
        if there.has_arrived:
            return True
        raise LiveMigrationFailed(f"The guest was switched off: a part of its memory was on {dest}, and is lost")

    def _ended_halfway(self, uuid: str, dest: str) -> bool:
        """Return True if the guest has ended here after it had continued on the destination, which has its newest disks."""
        if self._part(uuid) not in (Part.OFF, Part.CRASHED):
            return False
        there = self._part_on(dest, uuid)
        return there.is_half or there.has_arrived

    def _is_interrupted(self, domain: object) -> bool:
        return self._connection.call(lambda _connection: live.is_interrupted(domain))

    def _way(self, dest: str) -> live.Way:
        """:raises SpawnFailed:"""
        options = self._options
        return live.Way(
            dest,
            self._uri_of(dest),
            options.migration_data_uri.replace("%s", dest),
            encrypted=options.live_migration_with_native_tls,
            bandwidth_mib=options.live_migration_bandwidth,
            slows_down=options.live_migration_permit_auto_converge,
            post_copy=options.live_migration_permit_post_copy,
        )

    def _migrate(
        self,
        domain: object,
        uuid: str,
        dest: str,
        progress: Callable[[int], object],
        cells: JSONObject | None,
    ) -> str:
        """Return why the guest has not left, if it has not. :raises Unreachable: it is unknown"""
        here = self._disks.of(uuid)
        try:
            way = self._way(dest)
            with peer.connected(self._connection.open_other, way.uri) as other:
                there = peer.opened_directory(other, uuid).parent
                cpus = Capabilities.parse(other.getCapabilities()).cell_cpus() if cells else {}
                arrival = live.Arrival(there, peer.has_file(other, uuid, SHARED_MARK), cpus, cells)
        except (SpawnFailed, library().libvirtError) as failure:
            return str(failure)
        failpoints.hit("libvirt.migrate.before")
        try:
            with live.watched(domain, progress, way.post_copy):
                self._connection.call(lambda _connection: live.migrate(domain, way, here, arrival))
        except (OSError, library().libvirtError) as failure:
            return str(failure)
        failpoints.hit("libvirt.migrate.after")
        return ""

    def live_migration_abort(self, context: RequestContext, instance_uuid: str) -> None:
        domain = self._find(instance_uuid)
        if domain is not None:
            self._connection.call(lambda _connection: live.abort(domain))

    def post_live_migration_at_destination(self, context: RequestContext, instance: Instance) -> None:
        if self._settled(lambda: self._part(instance.uuid)) is Part.CUT_OFF:
            LOG.warning("Guest %s is switched off: the rest of its memory is lost", instance.uuid)
            domain = self._require(instance.uuid)
            self._connection.call(lambda _connection: power.force_off(domain))
        self._close_directory(instance.uuid)
        record = self._record(instance.uuid)
        if record.arriving:
            self._disks.keep(dataclasses.replace(record, arriving=False))
        self._disks.unmark_shared(instance.uuid)
