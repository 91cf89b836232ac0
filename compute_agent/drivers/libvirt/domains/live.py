# SPDX-License-Identifier: Apache-2.0
"""Live migrations with libvirt's peer-to-peer protocol: memory, and the disks that the guest writes to.

On storage that both hosts share, the destination links the disks. Otherwise it makes empty ones, and copies the files that
do not change. It opens the directory of the guest as a storage pool of its libvirt: the source reads there where the guest
is to be. libvirt runs the migration without the agent, which may
be restarted meanwhile. libvirt starts the guest on the destination only when it does not run on the source any more.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import os
import pathlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib import parse
from xml.etree import ElementTree

from compute_agent.drivers.base import LiveMigrationFailed
from compute_agent.drivers.libvirt.domains import domain_xml, part
from compute_agent.drivers.libvirt.domains.connection import library
from compute_agent.drivers.libvirt.domains.part import Part
from fleet import failpoints
from fleet.agent.image import RAW
from fleet.json_codec import JSONObject

if TYPE_CHECKING:
    import libvirt

#: Seconds between two looks at a migration.
_LOOK_S = 0.5


@dataclasses.dataclass(frozen=True)
class Layout:
    """The files of a running guest: their directory, the bytes of each disk that it writes, and the format of its base."""

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
    """Yield path and target of the guest's own disks. Volumes, which have serial numbers, stay where they are."""
    for disk in root.findall("devices/disk"):
        source, target = disk.find("source"), disk.find("target")
        own = disk.find("readonly") is None and disk.find("serial") is None
        if own and source is not None and target is not None:
            yield pathlib.Path(source.get("file", "")), target.get("dev", "")


@dataclasses.dataclass(frozen=True)
class Arrival:
    """The preparation of the destination for a guest.

    :param directory: of the guest's files there
    :param shared: True if its disks there are the same files as here
    :param cell_cpus: CPUs of each NUMA cell of the destination
    :param cells: the topology that it has claimed; None for guests without cells
    """

    directory: pathlib.Path
    shared: bool = False
    cell_cpus: Mapping[int, Sequence[int]] = dataclasses.field(default_factory=dict)
    cells: JSONObject | None = None


def elsewhere(text: str, here: pathlib.Path, arrival: Arrival, host: str) -> str:
    """Return the XML of a domain whose files, cells and CPUs are others, on another host."""
    root, there = ElementTree.fromstring(text), arrival.directory
    if arrival.cells:
        domain_xml.place_anew(root, arrival.cell_cpus, arrival.cells)
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
    """The way of a guest to a host: to its libvirt at ``uri``, with its data to ``data_uri`` if that is not empty.

    :param bandwidth_mib: MiB a second, for memory and for disks each; 0 for no limit
    :param slows_down: the guest is slowed down if it writes faster than libvirt copies
    :param post_copy: the guest may continue there before all of its memory has arrived
    """

    host: str
    uri: str
    data_uri: str
    encrypted: bool
    bandwidth_mib: int = 0
    slows_down: bool = True
    post_copy: bool = False

    def flags(self) -> int:
        module = library()
        flags: int = module.VIR_MIGRATE_LIVE | module.VIR_MIGRATE_PEER2PEER
        flags |= module.VIR_MIGRATE_PERSIST_DEST | module.VIR_MIGRATE_UNDEFINE_SOURCE
        if self.encrypted:
            flags |= module.VIR_MIGRATE_TLS
        if self.post_copy:
            return flags | int(module.VIR_MIGRATE_POSTCOPY)
        return flags | int(module.VIR_MIGRATE_AUTO_CONVERGE if self.slows_down else 0)


def migrate(domain: libvirt.virDomain, way: Way, here: pathlib.Path, arrival: Arrival) -> None:
    """Move a running domain, and forget it here. One whose post-copy was interrupted continues.

    :param here: the directory of its files
    :raises OSError: the disks there are not those that are here, though they should be
    :raises libvirt.libvirtError: the guest may be here or there then; libvirt knows
    """
    module = library()
    running = domain.XMLDesc(module.VIR_DOMAIN_XML_MIGRATABLE | module.VIR_DOMAIN_XML_SECURE)
    defined = domain.XMLDesc(
        module.VIR_DOMAIN_XML_INACTIVE | module.VIR_DOMAIN_XML_MIGRATABLE | module.VIR_DOMAIN_XML_SECURE
    )
    root, flags = ElementTree.fromstring(running), way.flags()
    parameters: dict[str, object] = {
        module.VIR_MIGRATE_PARAM_DEST_XML: elsewhere(running, here, arrival, way.host),
        module.VIR_MIGRATE_PARAM_PERSIST_XML: elsewhere(defined, here, arrival, way.host),
    }
    own = dict(_written(root))
    if arrival.shared:
        _require_same(own, arrival.directory)
    elif own:
        flags |= module.VIR_MIGRATE_NON_SHARED_INC
        parameters[module.VIR_MIGRATE_PARAM_MIGRATE_DISKS] = list(own.values())
    if arrival.shared or root.find("devices/disk/serial") is not None:
        # libvirt knows few kinds of shared storage. Both hosts were asked whether they have the same data.
        flags |= module.VIR_MIGRATE_UNSAFE
    if way.bandwidth_mib:
        parameters[module.VIR_MIGRATE_PARAM_BANDWIDTH] = way.bandwidth_mib
    if is_interrupted(domain):
        flags |= module.VIR_MIGRATE_POSTCOPY | module.VIR_MIGRATE_POSTCOPY_RESUME
    if way.bandwidth_mib and flags & module.VIR_MIGRATE_POSTCOPY:
        # The other limit ends with the switch.
        parameters[module.VIR_MIGRATE_PARAM_BANDWIDTH_POSTCOPY] = way.bandwidth_mib
    if way.data_uri:
        parameters[module.VIR_MIGRATE_PARAM_URI] = way.data_uri
        if address := _address(way.data_uri):
            parameters[module.VIR_MIGRATE_PARAM_LISTEN_ADDRESS] = address
    domain.migrateToURI3(way.uri, parameters, flags)


def _require_same(own: Iterable[pathlib.Path], there: pathlib.Path) -> None:
    """:raises OSError: a disk in the directory of the other host is not the one that the guest has here"""
    for path in own:
        if not os.path.samefile(path, there / path.name):
            raise FileNotFoundError(f"{there / path.name} is not {path}: the storage is not at one path on both hosts")


def is_interrupted(domain: libvirt.virDomain) -> bool:
    """Return True if a post-copy was cut off: a part of the memory is here, and a part there."""
    return part.of(domain) is Part.CUT_OFF


def _address(uri: str) -> str:
    """Return the IP address in a URI; "" if it has a name."""
    try:
        return str(ipaddress.ip_address(parse.urlsplit(uri).hostname or ""))
    except ValueError:
        return ""


@contextlib.contextmanager
def watched(domain: libvirt.virDomain, progress: Callable[[int], object], post_copy: bool = False) -> Iterator[None]:
    """Report the copied part of a migration, in per cent, while the context lasts. It never becomes less.

    libvirt copies disks first, and knows little of the memory then.

    :param post_copy: let the guest continue on the destination when all of its memory was sent once
    """
    over = threading.Event()

    def look() -> None:
        most, switched = 0, not post_copy
        while not over.wait(_LOOK_S):
            with contextlib.suppress(library().libvirtError):
                most = max(most, copied(domain) or 0)
                progress(most)
                failpoints.hit("libvirt.migrate.during")
                switched = switched or _is_switched(domain)

    thread = threading.Thread(target=look, name="live-migration", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _is_switched(domain: libvirt.virDomain) -> bool:
    """Let the guest continue on the destination if all of its memory was sent once. Return True if it was."""
    if domain.jobStats().get("memory_iteration", 0) <= 1:
        return False
    domain.migrateStartPostCopy()
    return True


def copied(domain: libvirt.virDomain) -> int | None:
    """Return how much a migration of the domain to another host has copied, in per cent; None: none is under way.

    libvirt has one job of a domain at a time: that of a backup or a dump is none of the agent's. A post-copy that was
    interrupted keeps its job, in which nothing is copied until the migration is begun again.
    """
    module = library()
    job = _migration_job(domain)
    if not job or is_interrupted(domain):
        return None
    total, done = (
        job.get(name, 0) for name in (module.VIR_DOMAIN_JOB_DATA_TOTAL, module.VIR_DOMAIN_JOB_DATA_PROCESSED)
    )
    return min(99, done * 100 // max(1, total))


def _migration_job(domain: libvirt.virDomain) -> Mapping[str, int]:
    """Return the figures of libvirt's job that migrates the domain away; none if it has no job, or another one."""
    module = library()
    job: Mapping[str, int] = domain.jobStats()
    runs = job.get("type") in (module.VIR_DOMAIN_JOB_BOUNDED, module.VIR_DOMAIN_JOB_UNBOUNDED)
    leaves = job.get(module.VIR_DOMAIN_JOB_OPERATION) == module.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT
    return job if runs and leaves else {}


def follow(domain: libvirt.virDomain, progress: Callable[[int], object], post_copy: bool = False) -> bool:
    """Wait for the end of a migration that is under way, or until it is interrupted. Return False if none is.

    :param post_copy: as for :func:`watched`, whose agent has ended; a migration that was begun without it goes on
    """
    module, found, pause = library(), False, threading.Event()
    switched = not post_copy
    try:
        while (percent := copied(domain)) is not None:
            found = True
            progress(percent)
            with contextlib.suppress(module.libvirtError):
                switched = switched or _is_switched(domain)
            pause.wait(_LOOK_S)
    except module.libvirtError as failure:
        if failure.get_error_code() not in (module.VIR_ERR_NO_DOMAIN, module.VIR_ERR_OPERATION_INVALID):
            raise
    return found


def has_left(domain: libvirt.virDomain | None, why: str) -> bool:
    """Return True if the guest runs on the destination: libvirt forgets a domain here when it runs there.

    So does the end of a domain that was undefined by hand. Ask the destination unless the migration has succeeded.

    :raises LiveMigrationFailed: it has not left
    :raises RuntimeError: libvirt has stopped it, and does not know itself
    """
    module = library()
    if domain is None:
        return True
    state, reason = domain.state()
    if (state, reason) == (module.VIR_DOMAIN_SHUTOFF, module.VIR_DOMAIN_SHUTOFF_MIGRATED):
        return True
    if part.of(domain).is_moving:
        raise RuntimeError(f"libvirt has paused the guest for its migration: {why}")
    raise LiveMigrationFailed(f"The guest stays where it is: {why}")


def abort(domain: libvirt.virDomain) -> None:
    """End the migration of a domain to another host. Any other job of the domain goes on."""
    module = library()
    try:
        if _migration_job(domain):
            domain.abortJob()
    except module.libvirtError as failure:
        if failure.get_error_code() not in (module.VIR_ERR_OPERATION_INVALID, module.VIR_ERR_NO_DOMAIN):
            raise
