# SPDX-License-Identifier: Apache-2.0
"""The files of volumes and snapshots: their names, and how large a guest sees them.

Called by :mod:`volume_agent.drivers.directory`.
"""

from __future__ import annotations

import errno
import os
import pathlib
import re
import stat
import struct

from oslo_utils import units

from fleet import control_characters
from fleet.agent import whole_file
from fleet.agent.image import QCOW2
from fleet.objects import Volume

_KINDS = ("volume", "snapshot")
#: The format is part of the name: the first bytes of a raw volume are its user's, who may write an image's header there.
NAME = re.compile(rf"(?:{'|'.join(_KINDS)})-([0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})(\.qcow2)?")
#: Of a file that is being written, or an image that is fetched for it.
PART_NAME = re.compile(rf"{re.escape(whole_file.PART)}{NAME.pattern}(\.image)?")
#: Begins every qcow2 image. Then come its version, and where the name of its backing file is.
_QCOW2_BEGIN = struct.Struct(">4sIQ")
_QCOW2_MAGIC = b"QFI\xfb"
#: Incompatible features of a qcow2 image of version 3; one says that its data are in another file.
_QCOW2_FEATURES, _EXTERNAL_DATA = struct.Struct(">72xQ"), 4
#: The virtual size in the header of a qcow2 image.
_QCOW2_SIZE = struct.Struct(">24xQ")


def is_qcow2(path: pathlib.Path) -> bool:
    return path.suffix == f".{QCOW2}"


def path_of(directory: pathlib.Path, volume: Volume, is_image: bool) -> pathlib.Path:
    """Return the path of a volume or snapshot that is to be made."""
    kind = "volume" if volume.snapshot_of is None else "snapshot"
    return directory / f"{kind}-{volume.uuid}{f'.{QCOW2}' if is_image else ''}"


def find(directory: pathlib.Path, uuid: str) -> pathlib.Path | None:
    return next((path for path in candidates(directory, uuid) if path.exists()), None)


def require(directory: pathlib.Path, uuid: str) -> pathlib.Path:
    """:raises FileNotFoundError: neither a volume nor a snapshot with this uuid is there"""
    found = find(directory, uuid)
    if found is None:
        raise FileNotFoundError(f"{directory} has no volume or snapshot {uuid}")
    return found


def candidates(directory: pathlib.Path, uuid: str) -> list[pathlib.Path]:
    """Return the paths that a volume or snapshot may have."""
    return [directory / f"{kind}-{uuid}{suffix}" for kind in _KINDS for suffix in ("", f".{QCOW2}")]


def usable_size(descriptor: int, path: pathlib.Path) -> int:
    """Return the bytes that a guest would see of an open file. :raises ValueError: why it cannot become a volume"""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a regular file")
    if status.st_nlink > 1:
        raise ValueError(f"it has {status.st_nlink} names: another file shares its data")
    if not os.access(path, os.W_OK):
        raise ValueError("the agent may not write it")
    header = os.pread(descriptor, _QCOW2_FEATURES.size, 0)
    size = status.st_size
    if is_qcow2(path):
        size = _size_of_image(header)
    elif header.startswith(_QCOW2_MAGIC):
        raise ValueError(f"it is a qcow2 image: give it a name that ends in .{QCOW2}")
    if not size:
        raise ValueError("it is empty")
    return size


def virtual_size(path: str | os.PathLike[str], is_image: bool) -> int:
    """Return the bytes that a guest sees of a volume. :raises OSError: it cannot be read, or is no image"""
    if not is_image:
        return os.stat(path).st_size
    with open(path, "rb") as file:
        header = file.read(_QCOW2_SIZE.size)
    if not header.startswith(_QCOW2_MAGIC) or len(header) < _QCOW2_SIZE.size:
        raise OSError(f"{os.fspath(path)} is no qcow2 image, although it is named so")
    size: int = _QCOW2_SIZE.unpack(header)[0]
    return size


def listed_size(path: str | os.PathLike[str], is_image: bool) -> int:
    """Return the virtual size of a volume, or the size of its file if that cannot be read: it harms no other volume.

    :raises FileNotFoundError:
    """
    try:
        return virtual_size(path, is_image)
    except OSError:
        return os.stat(path).st_size


def shown(name: str) -> str:
    """Return the name of a file as text: bytes that are not UTF-8, and control characters, are escaped."""
    return control_characters.one_line(os.fsencode(name).decode(errors="backslashreplace"))


def make_thick(path: pathlib.Path, size: int) -> None:
    """Give a raw volume all its space. If the file system lacks it, nothing of it is taken."""
    with open(path, "r+b") as file:
        lacks, there = size - whole_file.stored_size(os.fstat(file.fileno())), os.statvfs(path)
        free = there.f_bavail * there.f_frsize
        if lacks > free:
            reason = (
                f"lacks {(lacks - free) / units.Gi:.1f} GiB: free {free / units.Gi:.1f}, needed {lacks / units.Gi:.1f}"
            )
            raise OSError(errno.ENOSPC, f"the file system {reason}")
        os.posix_fallocate(file.fileno(), 0, size)


def grow_raw(path: pathlib.Path, before: int, size: int, thick: bool) -> None:
    """Grow a raw volume. If the file system is full, it keeps its size."""
    with open(path, "r+b") as file:
        if not thick:
            file.truncate(size)
            return
        try:
            os.posix_fallocate(file.fileno(), before, size - before)
        except OSError:
            file.truncate(before)
            raise


def _size_of_image(header: bytes) -> int:
    """:raises ValueError: it is no qcow2 image, or depends on another file"""
    if not header.startswith(_QCOW2_MAGIC) or len(header) < _QCOW2_FEATURES.size:
        raise ValueError("it is no qcow2 image, although it is named so")
    _magic, version, backing_file = _QCOW2_BEGIN.unpack_from(header)
    if backing_file:
        raise ValueError("it has a backing file: its data are not complete without it")
    if version > 2 and _QCOW2_FEATURES.unpack(header)[0] & _EXTERNAL_DATA:
        raise ValueError("it has its data in another file")
    size: int = _QCOW2_SIZE.unpack_from(header)[0]
    return size
