# SPDX-License-Identifier: Apache-2.0
"""The part of the driver that moves guests while they run. :mod:`compute_agent.drivers.libvirt.driver` inherits it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from compute_agent.drivers.base import SpawnFailed
from compute_agent.drivers.guest_record import GuestRecord
from compute_agent.drivers.libvirt.access import GuestAccess, explained
from compute_agent.drivers.libvirt.domains import live, peer
from compute_agent.drivers.libvirt.domains.connection import library
from fleet import failpoints, states
from fleet.context import RequestContext
from fleet.objects import Instance


class LiveMoves(GuestAccess):
    def pre_live_migration(self, context: RequestContext, instance: Instance, source: str) -> None:
        """Also what an earlier try has left is removed: the guest does not come before this has ended."""
        if self._disks.record(instance.uuid) is not None:
            self.destroy(context, instance.uuid)
        self._disks.begin(dataclasses.replace(GuestRecord.of(instance), arriving=True))
        try:
            with (
                explained(f"The guest cannot be received from {source}"),
                peer.connected(self._connection.open_other, self._uri_of(source)) as there,
            ):
                layout = live.Layout.of(there.lookupByUUIDString(instance.uuid))
                peer.open_directory(there, instance.uuid, layout.directory)
                try:
                    files = peer.files_in(there, instance.uuid)
                    image = self._known_image(context, instance)
                    self._disks.prepare(instance, image, files, layout.sizes, layout.base_format)
                finally:
                    peer.close_directory(there, instance.uuid)
                here = self._disks.of(instance.uuid)
                self._connection.call(lambda connection: peer.open_directory(connection, instance.uuid, here))
        except BaseException:
            self.destroy(context, instance.uuid)
            raise

    def live_migration(
        self,
        context: RequestContext,
        instance: Instance,
        dest: str,
        progress: Callable[[int], object],
        begin: bool = True,
    ) -> None:
        self._record(instance.uuid)
        why, domain = "no migration of it is under way", self._find(instance.uuid)
        if domain is not None:
            followed = self._connection.call(lambda _connection: live.follow(domain, progress))
            if followed:
                why = "its migration has ended"
            elif begin:
                runs = self._state(domain) == states.RUNNING
                why = self._migrate(domain, instance.uuid, dest, progress) if runs else "it does not run"
        left = self._find(instance.uuid)
        self._connection.call(lambda _connection: live.has_left(left, why))

    def _migrate(self, domain: object, uuid: str, dest: str, progress: Callable[[int], object]) -> str:
        """Return why the guest has not left, if it has not. :raises Unreachable: it is unknown"""
        here, options = self._disks.of(uuid), self._options
        try:
            data_uri = options.migration_data_uri.replace("%s", dest)
            way = live.Way(dest, self._uri_of(dest), data_uri, options.live_migration_with_native_tls)
            with peer.connected(self._connection.open_other, way.uri) as other:
                there = peer.opened_directory(other, uuid)
        except (SpawnFailed, library().libvirtError) as failure:
            return str(failure)
        failpoints.hit("libvirt.migrate.before")
        try:
            with live.watched(domain, progress):
                self._connection.call(lambda _connection: live.migrate(domain, way, here, there))
        except library().libvirtError as failure:
            return str(failure)
        failpoints.hit("libvirt.migrate.after")
        return ""

    def live_migration_abort(self, context: RequestContext, instance_uuid: str) -> None:
        domain = self._find(instance_uuid)
        if domain is not None:
            self._connection.call(lambda _connection: live.abort(domain))

    def post_live_migration_at_destination(self, context: RequestContext, instance: Instance) -> None:
        self._close_directory(instance.uuid)
        record = self._record(instance.uuid)
        if record.arriving:
            self._disks.keep(dataclasses.replace(record, arriving=False))
