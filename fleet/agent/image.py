# SPDX-License-Identifier: Apache-2.0
"""The bytes of an image, read from a file or by HTTP.

They are written sparsely, to a limited size, and compared with the checksum. Called by the drivers of
:mod:`compute_agent.drivers.libvirt.disks` and :mod:`volume_agent.drivers`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import os
import pathlib
import stat
import struct
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import BinaryIO

import requests
import urllib3
from oslo_utils import units

from fleet import errors
from fleet.agent import time_limit
from fleet.objects import ImageRecord, VolumeImage

#: What names the bytes and their checksum.
Source = VolumeImage | ImageRecord
RAW, QCOW2 = "raw", "qcow2"
_FILE = "file"
#: Bytes that are read at once. A part of this size that is all zeros becomes a hole.
_BLOCK = 64 * units.Ki
#: The checksum is that of the image, not of a compressed answer.
_AS_IT_IS = {"Accept-Encoding": "identity"}
#: Seconds to connect, and between two parts of an answer.
_PATIENCE_S = (10, 60)
#: Seconds that a download may take.
_LONGEST_S = 3600
#: What the tables of an image may take besides the data, as a part of them, and at least.
_OVERHEAD, _LEAST_OVERHEAD = 8, 64 * units.Mi
#: The header of a qcow2 image: magic, version, offset of the backing file's name, virtual size.
_HEADER = struct.Struct(">4sIQ8xQ")
_MAGIC = b"QFI\xfb"
#: Version 3: flags of features that a reader must support. One flag means that the data are in another file.
_FEATURES, _FEATURES_AT, _DATA_ELSEWHERE = struct.Struct(">Q"), 72, 1 << 2


@dataclasses.dataclass(frozen=True)
class Room:
    """Bytes that the disk of an image may have. :param of_host: they are what this host has free; another may have more"""

    size: int
    of_host: bool = False

    def require(self, image: Source, needed: int, reason: str) -> None:
        """:raises errors.ImageUnacceptable: OSError: the image needs more, on any host, or on this one"""
        if needed <= self.size:
            return
        if self.of_host:
            raise OSError(errno.ENOSPC, f"image {image.name} {reason}")
        raise errors.ImageUnacceptable(image_id=image.name, reason=reason)


def write(image: Source, path: pathlib.Path, room: Room, clock: Callable[[], float] = time.monotonic) -> None:
    """Write the bytes of ``image`` to ``path``, for a disk in ``room``.

    :raises errors.ImageUnacceptable: they differ from the record, are too many, or need another file
    :raises OSError: they cannot be read or written now
    :raises time_limit.Overrun: the caller has abandoned this work
    """
    size = room.size
    most = size if image.disk_format == RAW else size + max(size // _OVERHEAD, _LEAST_OVERHEAD)
    algorithm, _, wanted = (image.checksum or "sha256:").partition(":")
    found, written = hashlib.new(algorithm), 0
    with open(path, "wb") as file:
        for block in _blocks(image, clock):
            time_limit.require_wanted()
            written += len(block)
            if written > most:
                room.require(image, written, f"has more than the {most} bytes that may be")
            found.update(block)
            _put(file, block)
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.truncate(written)
    if wanted and found.hexdigest() != wanted:
        reason = f"has the checksum {algorithm}:{found.hexdigest()}, not {image.checksum}"
        raise errors.ImageUnacceptable(image_id=image.name, reason=reason)
    if image.disk_format == QCOW2:
        _require_alone(image, path, room)


def _put(file: BinaryIO, block: bytes) -> None:
    if block.count(0) == len(block):
        file.seek(len(block), os.SEEK_CUR)
    else:
        file.write(block)


def _require_alone(image: Source, path: pathlib.Path, room: Room) -> None:
    """An image could name any file of this machine as the one that its data are in."""
    with open(path, "rb") as file:
        header = file.read(_FEATURES_AT + _FEATURES.size)
    if len(header) < _HEADER.size or not header.startswith(_MAGIC):
        raise errors.ImageUnacceptable(image_id=image.name, reason="is not in the format qcow2")
    _magic, version, backing, virtual_size = _HEADER.unpack_from(header)
    is_long = version >= 3 and len(header) == _FEATURES_AT + _FEATURES.size
    features = _FEATURES.unpack_from(header, _FEATURES_AT)[0] if is_long else 0
    if backing or features & _DATA_ELSEWHERE:
        raise errors.ImageUnacceptable(image_id=image.name, reason="needs another file, which is not allowed")
    room.require(image, virtual_size, f"needs {virtual_size} bytes, the disk has {room.size}")


def _blocks(image: Source, clock: Callable[[], float]) -> Iterator[bytes]:
    """:raises OSError:"""
    scheme, _, rest = image.location.partition("://")
    if image.location.startswith("/") or scheme == _FILE:
        yield from _of_file(image.location if image.location.startswith("/") else _path(rest))
        return
    try:
        yield from _of_url(image, clock)
    except (requests.RequestException, urllib3.exceptions.HTTPError) as failure:
        # Its message has the URL, which may have a password.
        answer = getattr(failure, "response", None)
        status = answer.status_code if answer is not None else type(failure).__name__
        raise OSError(f"image {image.name} cannot be downloaded: {status}") from None


def _path(rest: str) -> str:
    """The path of a file URL, whose host may be left out."""
    return urllib.parse.unquote(rest.removeprefix("localhost"))


def _of_file(path: str) -> Iterator[bytes]:
    # A pipe or a device would block, or never end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no regular file")
        while block := file.read(_BLOCK):
            yield block


def _of_url(image: Source, clock: Callable[[], float]) -> Iterator[bytes]:
    """Yield what has arrived. To wait for a whole block would be to wait as long as something comes now and then."""
    end = clock() + _LONGEST_S
    with contextlib.closing(
        requests.get(image.location, headers=_AS_IT_IS, stream=True, timeout=_PATIENCE_S)
    ) as answer:
        answer.raise_for_status()
        while block := answer.raw.read1(_BLOCK, decode_content=True):
            if clock() > end:
                raise TimeoutError(f"the download of image {image.name} takes more than {_LONGEST_S} s")
            yield block
