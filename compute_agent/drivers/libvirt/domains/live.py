# SPDX-License-Identifier: Apache-2.0
"""Live migrations with libvirt's peer-to-peer protocol: memory, and the disks that the guest writes to.

The destination makes empty disks, copies the files that do not change, and opens the directory of the guest as a storage
pool of its libvirt: the source reads there where the guest is to be. libvirt runs the migration without the agent, which may
be restarted meanwhile. libvirt starts the guest on the destination only when it does not run on the source any more.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import pathlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib import parse
from xml.etree import ElementTree

from compute_agent.drivers.base import LiveMigrationFailed
from compute_agent.drivers.libvirt.domains import domain_xml
from compute_agent.drivers.libvirt.domains.connection import library
from fleet import failpoints
from fleet.agent.image import RAW

if TYPE_CHECKING:
    import libvirt

#: Seconds between two looks at a migration.
_LOOK_S = 0.5


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where the files of a running guest are, the bytes of each disk that it writes to, and the format of its base."""

    directory: pathlib.Path
    sizes: Mapping[str, int]
    base_format: str

    @classmethod
    def of(cls, domain: libvirt.virDomain) -> Layout:
        root = ElementTree.fromstring(domain.XMLDesc())
        written = dict(_written(root))
        base = root.find("devices/disk/backingStore/format")
        return cls(
            directory=next(iter(written)).parent,
            sizes={path.name: domain.blockInfo(target)[0] for path, target in written.items()},
            base_format=RAW if base is None else base.get("type", RAW),
        )


def _written(root: ElementTree.Element) -> Iterator[tuple[pathlib.Path, str]]:
    for disk in root.findall("devices/disk"):
        source, target = disk.find("source"), disk.find("target")
        if disk.find("readonly") is None and source is not None and target is not None:
            yield pathlib.Path(source.get("file", "")), target.get("dev", "")


def elsewhere(text: str, here: pathlib.Path, there: pathlib.Path, host: str) -> str:
    """Return the XML of a domain whose files are in another directory, on another host."""
    root = ElementTree.fromstring(text)
    for element, name in (("source", "file"), ("log", "file")):
        for each in root.iter(element):
            path = pathlib.Path(each.get(name, ""))
            if path.parent == here:
                each.set(name, str(there / path.name))
    for mark in root.iter(f"{{{domain_xml.NAMESPACE}}}{domain_xml.MARK}"):
        mark.set("host", host)
        mark.set("node", host)
    return ElementTree.tostring(root, encoding="unicode")


@dataclasses.dataclass(frozen=True)
class Way:
    """How a guest gets to a host: to its libvirt at ``uri``, with its data to ``data_uri`` if that is not empty."""

    host: str
    uri: str
    data_uri: str
    encrypted: bool


def migrate(domain: libvirt.virDomain, way: Way, here: pathlib.Path, there: pathlib.Path) -> None:
    """Move a running domain, and forget it here.

    :param here: the directory of its files
    :param there: that on the other host
    :raises libvirt.libvirtError: the guest may be here or there then; libvirt knows
    """
    module = library()
    flags = (
        module.VIR_MIGRATE_LIVE
        | module.VIR_MIGRATE_PEER2PEER
        | module.VIR_MIGRATE_PERSIST_DEST
        | module.VIR_MIGRATE_UNDEFINE_SOURCE
        | module.VIR_MIGRATE_NON_SHARED_INC
        | module.VIR_MIGRATE_AUTO_CONVERGE
        | (module.VIR_MIGRATE_TLS if way.encrypted else 0)
    )
    running = domain.XMLDesc(module.VIR_DOMAIN_XML_MIGRATABLE | module.VIR_DOMAIN_XML_SECURE)
    defined = domain.XMLDesc(
        module.VIR_DOMAIN_XML_INACTIVE | module.VIR_DOMAIN_XML_MIGRATABLE | module.VIR_DOMAIN_XML_SECURE
    )
    written = [target for _path, target in _written(ElementTree.fromstring(running))]
    parameters = {
        module.VIR_MIGRATE_PARAM_DEST_XML: elsewhere(running, here, there, way.host),
        module.VIR_MIGRATE_PARAM_PERSIST_XML: elsewhere(defined, here, there, way.host),
        module.VIR_MIGRATE_PARAM_MIGRATE_DISKS: written,
    }
    if way.data_uri:
        parameters[module.VIR_MIGRATE_PARAM_URI] = way.data_uri
        if address := _address(way.data_uri):
            parameters[module.VIR_MIGRATE_PARAM_LISTEN_ADDRESS] = address
    domain.migrateToURI3(way.uri, parameters, flags)


def _address(uri: str) -> str:
    """Return the IP address in a URI; "" if it has a name."""
    try:
        return str(ipaddress.ip_address(parse.urlsplit(uri).hostname or ""))
    except ValueError:
        return ""


@contextlib.contextmanager
def watched(domain: object, progress: Callable[[int], object]) -> Iterator[None]:
    """Report the copied part of a migration, in per cent, while the context lasts. It never becomes less.

    libvirt copies disks first, and knows little of the memory then.
    """
    over = threading.Event()

    def look() -> None:
        most = 0
        while not over.wait(_LOOK_S):
            with contextlib.suppress(library().libvirtError):
                most = max(most, copied(domain) or 0)
                progress(most)
                failpoints.hit("libvirt.migrate.during")

    thread = threading.Thread(target=look, name="live-migration", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def copied(domain: libvirt.virDomain) -> int | None:
    """Return how much a job of the domain has copied, in per cent; None: there is no job."""
    kind, _elapsed, _left, total, done, *_more = domain.jobInfo()
    if kind in (library().VIR_DOMAIN_JOB_NONE, library().VIR_DOMAIN_JOB_COMPLETED):
        return None
    return min(99, done * 100 // max(1, total))


def follow(domain: object, progress: Callable[[int], object]) -> bool:
    """Wait for the end of a migration that is under way. Return False if none is."""
    module, found, pause = library(), False, threading.Event()
    try:
        while (percent := copied(domain)) is not None:
            found = True
            progress(percent)
            pause.wait(_LOOK_S)
    except module.libvirtError as failure:
        if failure.get_error_code() not in (module.VIR_ERR_NO_DOMAIN, module.VIR_ERR_OPERATION_INVALID):
            raise
    return found


def has_left(domain: libvirt.virDomain | None, why: str) -> bool:
    """Return True if the guest runs on the destination: libvirt forgets a domain here when it runs there.

    :raises LiveMigrationFailed: it has not left
    :raises RuntimeError: libvirt has stopped it, and does not know itself
    """
    module = library()
    if domain is None:
        return True
    state, reason = domain.state()
    if (state, reason) == (module.VIR_DOMAIN_SHUTOFF, module.VIR_DOMAIN_SHUTOFF_MIGRATED):
        return True
    if state == module.VIR_DOMAIN_PAUSED and reason == module.VIR_DOMAIN_PAUSED_MIGRATION:
        raise RuntimeError(f"libvirt has paused the guest for its migration: {why}")
    raise LiveMigrationFailed(f"The guest stays where it is: {why}")


def abort(domain: libvirt.virDomain) -> None:
    module = library()
    try:
        domain.abortJob()
    except module.libvirtError as failure:
        if failure.get_error_code() not in (module.VIR_ERR_OPERATION_INVALID, module.VIR_ERR_NO_DOMAIN):
            raise
