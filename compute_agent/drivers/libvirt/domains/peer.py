# SPDX-License-Identifier: Apache-2.0
"""The disks of a guest that moves to another host, read through libvirt.

Called by modules of :mod:`compute_agent.drivers.libvirt` and :mod:`compute_agent.drivers.libvirt.disks`. The source
opens a directory with links of the guest's files as a storage pool of its libvirt while the guest moves
(:func:`open_directory`). The
destination connects to that libvirt and reads the files (:func:`reach`), with the holes that they have. It writes
nothing there.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement, tostring

from compute_agent.drivers.libvirt.domains.connection import Unreachable, library

if TYPE_CHECKING:
    import libvirt

_CHUNK = 256 << 10
#: The answer of libvirt if a hole comes next.
_HOLE = -3


class Files(Protocol):
    """The files of a guest on its source."""

    def stored(self) -> dict[str, int]:
        """Return by name the bytes that each file has on its disk."""
        ...

    def read(self, name: str) -> Iterator[bytes | int]:
        """Yield the content of a file. A number is the length of a hole."""
        ...


class PoolFiles:
    def __init__(self, connection: libvirt.virConnect, pool: libvirt.virStoragePool) -> None:
        self._connection = connection
        self._pool = pool

    def stored(self) -> dict[str, int]:
        self._pool.refresh()
        return {volume.name(): volume.info()[2] for volume in self._pool.listAllVolumes()}

    def read(self, name: str) -> Iterator[bytes | int]:
        module = library()
        stream = self._connection.newStream()
        try:
            sparse = module.VIR_STORAGE_VOL_DOWNLOAD_SPARSE_STREAM
            self._pool.storageVolLookupByName(name).download(stream, 0, 0, sparse)
            while True:
                piece = stream.recvFlags(_CHUNK, module.VIR_STREAM_RECV_STOP_AT_HOLE)
                if piece == _HOLE:
                    yield stream.recvHole()
                elif piece:
                    yield piece
                else:
                    break
            stream.finish()
        except BaseException:
            with contextlib.suppress(module.libvirtError):
                stream.abort()
            raise


@contextlib.contextmanager
def reach(opened: Callable[[str], object], uri: str, uuid: str) -> Iterator[Files]:
    """Connect to the libvirt of another host. It must have opened the directory of the guest.

    :raises Unreachable:
    :raises libvirt.libvirtError: it has not
    """
    with connected(opened, uri) as connection:
        yield files_in(connection, uuid)


def files_in(connection: libvirt.virConnect, uuid: str) -> PoolFiles:
    """:raises libvirt.libvirtError: the directory of the guest is not open there"""
    return PoolFiles(connection, connection.storagePoolLookupByName(_name(uuid)))


@contextlib.contextmanager
def connected(opened: Callable[[str], Any], uri: str) -> Iterator[Any]:
    """Connect to the libvirt of another host. :raises Unreachable:"""
    module = library()
    try:
        connection = opened(uri)
    except module.libvirtError as failure:
        raise Unreachable(f"libvirt at {uri} cannot be reached: {failure.get_error_message()}") from None
    try:
        yield connection
    finally:
        with contextlib.suppress(module.libvirtError):
            connection.close()


def opened_directory(connection: libvirt.virConnect, uuid: str) -> pathlib.Path:
    """Return the directory of a guest that the other host has opened. :raises libvirt.libvirtError: it has not"""
    found = ElementTree.fromstring(connection.storagePoolLookupByName(_name(uuid)).XMLDesc()).findtext("target/path")
    return pathlib.Path(found or "")


def has_file(connection: libvirt.virConnect, uuid: str, name: str) -> bool:
    """Return True if the opened directory of a guest has this file. :raises libvirt.libvirtError: it is not open"""
    pool = connection.storagePoolLookupByName(_name(uuid))
    return any(volume.name() == name for volume in pool.listAllVolumes())


def opened_directories(connection: libvirt.virConnect) -> set[pathlib.Path]:
    """Return the directories of all pools."""
    found = (ElementTree.fromstring(pool.XMLDesc()) for pool in connection.listAllStoragePools())
    return {pathlib.Path(root.findtext("target/path") or "") for root in found}


def open_directory(connection: libvirt.virConnect, uuid: str, directory: pathlib.Path) -> None:
    """Let destinations read the files of a guest. May be repeated.

    libvirt opens every file there, as root, and each other one that a file names as a part of it.
    """
    close_directory(connection, uuid)
    pool = Element("pool", type="dir")
    SubElement(pool, "name").text = _name(uuid)
    SubElement(SubElement(pool, "target"), "path").text = str(directory)
    connection.storagePoolCreateXML(tostring(pool, encoding="unicode"))


def close_directory(connection: libvirt.virConnect, uuid: str) -> None:
    """The files stay. A directory that is not open is a success."""
    module = library()
    try:
        connection.storagePoolLookupByName(_name(uuid)).destroy()
    except module.libvirtError as failure:
        if failure.get_error_code() != module.VIR_ERR_NO_STORAGE_POOL:
            raise


def _name(uuid: str) -> str:
    return f"fleet-{uuid}"
