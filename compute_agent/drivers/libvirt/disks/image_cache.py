# SPDX-License-Identifier: Apache-2.0
"""Bases: the data of images, fetched once and shared by the overlays of guests.

Called by :mod:`compute_agent.drivers.libvirt.access` and :mod:`compute_agent.drivers.libvirt.disks.guest_disks`.

::

    (nothing) ── fetched, checked ──▶ .part-UUID ── flushed, renamed ──▶ UUID ── no guest has it for an age ──▶ (nothing)

A guest holds its base by a hard link in its own directory. The number of links is how many guests have it, so no other
record can be wrong about that, and a base that is removed from the cache stays with its guests.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import pathlib
import re
import threading
import time
from collections.abc import Callable, Iterator

from oslo_log import log as logging

from fleet import errors
from fleet.agent import commands, image, time_limit, whole_file
from fleet.json_codec import JSONObject
from fleet.objects import ImageRecord

LOG = logging.getLogger(__name__)

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: An image is written by a user: the program that examines it gets so much address space and CPU time.
_LIMITS = ("prlimit", f"--as={1 << 30}", "--cpu=30", "--")
#: The files are read by the hypervisor's user.
_MODE = 0o644


class ImageCache:
    """The lock guards the locks by image, of which each is held while its image is fetched.

    :param clock: seconds since the epoch
    """

    def __init__(self, directory: pathlib.Path, clock: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._clock = clock
        self._lock = threading.Lock()
        self._fetching: collections.defaultdict[str, threading.Lock] = collections.defaultdict(threading.Lock)

    def start(self) -> None:
        """Remove partial files that a crash has left."""
        self._directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        for part in self._directory.glob(f"{whole_file.PART}*"):
            LOG.info("Removing %s, which a crash has left half-fetched", part)
            part.unlink(missing_ok=True)

    def link(self, record: ImageRecord, path: pathlib.Path, room: image.Room) -> None:
        """Make ``path`` a link to the base of an image, which is fetched if it is not there.

        :param room: of the disk that it is for
        :raises errors.ImageUnacceptable:
        :raises OSError: the data cannot be read or written now
        """
        with self._ready(record, room) as base:
            # To fetch it may have taken too long.
            time_limit.require_wanted()
            os.link(base, path)

    def prepare(self, record: ImageRecord, room: image.Room) -> None:
        """Fetch and examine the base of an image, as for :meth:`link`, which is to follow.

        :raises errors.ImageUnacceptable:
        :raises OSError:
        """
        with self._ready(record, room):
            pass

    @contextlib.contextmanager
    def _ready(self, record: ImageRecord, room: image.Room) -> Iterator[pathlib.Path]:
        """Yield the base of an image. No thread removes it from the cache within the block."""
        if not _UUID.fullmatch(record.uuid):
            raise errors.ImageUnacceptable(image_id=record.uuid, reason="has no uuid")
        base = self._directory / record.uuid
        with self._lock:
            fetching = self._fetching[record.uuid]
        with fetching:
            if base.exists():
                # It may have been fetched for a larger disk.
                examine(record, base, room)
            else:
                self._fetch(record, base, room)
            os.utime(base, (self._clock(), self._clock()))
            yield base

    def _fetch(self, record: ImageRecord, base: pathlib.Path, room: image.Room) -> None:
        started = time.monotonic()
        with whole_file.written(base, _MODE) as part:
            image.write(record, part, room)
            examine(record, part, room)
        size_mb = base.stat().st_size >> 20
        LOG.info("Fetched image %s (%d MiB) in %.1f s", record.name, size_mb, time.monotonic() - started)

    def clean(self, age_s: float) -> None:
        """Remove bases that no guest has, and that were not used for ``age_s``."""
        for base in self._directory.iterdir():
            if not _UUID.fullmatch(base.name):
                continue
            with self._lock:
                fetching = self._fetching[base.name]
            with fetching, contextlib.suppress(FileNotFoundError):
                found = base.stat()
                if found.st_nlink == 1 and found.st_mtime + age_s <= self._clock():
                    LOG.info("Removing the base of image %s: no guest has it", base.name)
                    base.unlink()


def examine(record: ImageRecord, path: pathlib.Path, room: image.Room) -> None:
    """Compare the data with the record. The format comes from the record only, never from the data.

    :raises errors.ImageUnacceptable:
    :raises OSError: this host cannot examine it, or has too little room
    """
    try:
        text = commands.run(*_LIMITS, "qemu-img", "info", "--output=json", str(path), timeout_s=commands.QUICK_S)
        found: JSONObject = json.loads(text)
    except (OSError, ValueError) as failure:
        if isinstance(failure, OSError) and failure.errno is not None:
            # The program was not started: that is no fault of the image.
            raise
        raise errors.ImageUnacceptable(image_id=record.name, reason=f"cannot be examined: {failure}") from None
    more = found.get("format-specific", {}).get("data", {})
    if found.get("format") != record.disk_format:
        reason = f"is in the format {found.get('format')}, not {record.disk_format}"
    elif "backing-filename" in found or "data-file" in more:
        reason = "needs another file, which is not allowed"
    else:
        needed = found["virtual-size"]
        room.require(record, needed, f"needs {needed} bytes, the disk has {room.size}")
        return
    raise errors.ImageUnacceptable(image_id=record.name, reason=reason)
