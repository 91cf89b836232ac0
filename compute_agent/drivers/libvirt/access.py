# SPDX-License-Identifier: Apache-2.0
"""Shared by the parts of the driver: domains and records of guests by uuid, the start of a guest, and its removal.

Called by the modules beside it.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from oslo_config import cfg
from oslo_log import log as logging

from compute_agent.drivers.base import ComputeDriver, FindBootData, FindImage, SpawnFailed
from compute_agent.drivers.guest_record import GuestRecord
from compute_agent.drivers.libvirt.disks.guest_disks import CONSOLE, GuestDisks
from compute_agent.drivers.libvirt.disks.image_cache import ImageCache
from compute_agent.drivers.libvirt.domains import domain_xml, peer, power, volumes
from compute_agent.drivers.libvirt.domains.capabilities import Capabilities
from compute_agent.drivers.libvirt.domains.connection import Connection, library
from compute_agent.drivers.libvirt.domains.domain_xml import Machine
from fleet import errors, failpoints
from fleet.agent import time_limit
from fleet.context import RequestContext
from fleet.objects import Attachment, ImageRecord, Instance

if TYPE_CHECKING:
    import libvirt

LOG = logging.getLogger(__name__)

DEFAULT_URI = "qemu:///system"
#: Directory of the guests of a host.
GUESTS = "guests"


class GuestAccess(ComputeDriver):
    """Domains and records of guests by uuid. Stores nothing of a guest in memory."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._options = conf.libvirt
        self._host = ""
        self._connection = Connection(self._options.connection_uri or DEFAULT_URI)
        self._set_root(pathlib.Path(conf.instances_path) / "libvirt")
        self._find_image: FindImage | None = None
        self._find_boot_data: FindBootData | None = None
        #: Type of the domains; a test has another.
        self.kind: str = self._options.virt_type

    def _set_root(self, root: pathlib.Path) -> None:
        self._root = root
        self._cache = ImageCache(root / "bases")
        self._disks = GuestDisks(root / GUESTS, self._cache)

    def _capabilities(self) -> Capabilities:
        return Capabilities.parse(self._connection.call(lambda connection: connection.getCapabilities()))

    def _start(self, instance: Instance) -> None:
        capabilities = self._capabilities()
        machine = Machine(self.kind, self._options.cpu_mode, capabilities.cell_cpus())
        console = self._disks.of(instance.uuid) / CONSOLE
        attached = [volumes.disk_of(each) for each in self._record(instance.uuid).attachments()]
        disks = [*self._disks.disks(instance), *attached]
        text = domain_xml.build(machine, instance, self._host, disks, console)
        time_limit.require_wanted()
        domain = self._connection.call(lambda connection: connection.defineXML(text))
        # It would bring back the definition that it was saved with.
        self._connection.call(lambda _connection: power.forget_memory(domain))
        failpoints.hit("libvirt.define.after")
        time_limit.require_wanted()
        self._connection.call(lambda _connection: domain.create())
        failpoints.hit("libvirt.start.after")

    def destroy(self, context: RequestContext, instance_uuid: str) -> None:
        """First the domain, then the files: what is left of a destroy that was interrupted is found by the files.

        Files of another host are its guest's only ones: a storage that hosts have in common without ``shared_storage``
        has them where those of an earlier move would be.
        """
        record = self._disks.record(instance_uuid)
        is_known = record is not None
        if record is not None and not self._is_ours(record):
            LOG.error(
                "The files of instance %s stay: they are those of host %s. Set [libvirt] shared_storage for both",
                *(instance_uuid, record.node),
            )
            return
        domain = self._find(instance_uuid)
        if domain is not None and (
            self._is_named(domain, instance_uuid) if is_known else self._mark(domain) is not None
        ):
            self._connection.call(lambda _connection: power.remove(domain))
        if is_known:
            self._close_directory(instance_uuid)
        # The files may be those of a later guest: the next call removes what this one leaves.
        time_limit.require_wanted()
        if not self._disks.remove(instance_uuid) and domain is None:
            LOG.warning("Nothing to destroy: instance %s is not on this machine", instance_uuid)

    def _is_ours(self, record: GuestRecord) -> bool:
        return record.node in (self._host, "")

    def _uri_of(self, host: str) -> str:
        """:raises SpawnFailed: this host has no way to read disks of others"""
        if not self._options.migration_uri:
            raise SpawnFailed(f"The disks cannot be copied to {self._host}: it has no [libvirt] migration_uri")
        return str(self._options.migration_uri).replace("%s", host)

    def _shared_guests(self, host: str) -> pathlib.Path | None:
        """Return the directory of another host's guests, on storage that it shares with this one; None if it does not.

        :raises SpawnFailed: it is not known, since the storage is away
        """
        if not self._options.shared_storage:
            return None
        if not self._disks.directory.is_dir():
            raise SpawnFailed(f"The storage {self._options.shared_storage} is not mounted on {self._host}")
        there = self._root.parent / pathlib.Path(host).name
        return there / GUESTS if there.is_dir() else None

    def _known_image(self, context: RequestContext, instance: Instance) -> ImageRecord | None:
        try:
            return self._find_image(context, instance.image.id) if self._find_image and instance.image.id else None
        except errors.NotFound:
            return None

    def _open_directory(self, uuid: str) -> None:
        opened = self._disks.opened(uuid)
        self._connection.call(lambda connection: peer.open_directory(connection, uuid, opened))

    def _close_directory(self, uuid: str) -> None:
        if self._options.migration_uri:
            self._connection.call(lambda connection: peer.close_directory(connection, uuid))
        self._disks.hide(uuid)

    def _undo_resize(self, uuid: str) -> None:
        """The domain goes, too: its definition is that of the new flavor."""
        domain = self._find(uuid)
        if domain is not None:
            self._connection.call(lambda _connection: power.remove(domain))
        self._disks.shrink(uuid)

    def _find(self, uuid: str) -> libvirt.virDomain | None:
        """:raises Unreachable:"""
        module = library()
        try:
            return self._connection.call(lambda connection: connection.lookupByUUIDString(uuid))
        except module.libvirtError as failure:
            if failure.get_error_code() == module.VIR_ERR_NO_DOMAIN:
                return None
            raise

    def _mark(self, domain: libvirt.virDomain) -> Mapping[str, str] | None:
        """Return the mark of a domain that this host has made; None if something else has made it."""
        return domain_xml.mark_of(self._connection.call(lambda _connection: domain.XMLDesc()), self._host)

    def _is_named(self, domain: libvirt.virDomain, uuid: str) -> bool:
        """Return False if something else has made the domain: the guest of the record was then never defined."""
        return bool(self._connection.call(lambda _connection: domain.name()) == domain_xml.name_of(uuid))

    def _require(self, uuid: str) -> libvirt.virDomain | None:
        """Return the domain of a guest, None if it is not defined. :raises errors.NotFound: there is no such guest"""
        self._record(uuid)
        return self._find(uuid)

    def _record(self, uuid: str) -> GuestRecord:
        """:raises errors.NotFound: there is no such guest"""
        record = self._disks.record(uuid)
        if record is None:
            raise errors.NotFound(kind="Guest", name=uuid)
        return record

    def _state(self, domain: object) -> int:
        state: int = self._connection.call(lambda _connection: power.state_of(domain))
        return state


def require_openable(attachments: Iterable[Attachment]) -> None:
    """:raises errors.NotSupported: the data of a volume are nowhere"""
    for kind in (each.connection.kind for each in attachments):
        if kind not in ("file", "block"):
            raise errors.NotSupported(what=f"A volume of the kind {kind}", driver="the driver libvirt")


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """:raises SpawnFailed: with the reason, in the place of errors of files and of libvirt"""
    try:
        yield
    except (OSError, library().libvirtError) as failure:
        raise SpawnFailed(f"{what}: {failure}") from failure
