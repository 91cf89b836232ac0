# SPDX-License-Identifier: Apache-2.0
"""The files of guests: a directory for each.

Called by :mod:`compute_agent.drivers.libvirt.driver` and modules beside it. It has ``guest.json`` (the record),
``base`` (a link to the data of the image), ``disk`` (the overlay that the guest boots from), ``ephemeral`` and
``swap`` where the flavor has them, ``seed.iso``, ``console.log``, and ``opened``, which other hosts may read. The
directory appears with the record in it: an
agent that dies later finds the rest by it. To remove a guest, its directory is renamed first.

Work on a guest that took too long is abandoned, and its thread may go on. Before each step that changes something it finds
out (``time_limit.require_wanted``), so it leaves the files of later work alone.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Mapping

from oslo_log import log as logging
from oslo_utils import units, uuidutils

from compute_agent.drivers import guest_record
from compute_agent.drivers.base import SpawnFailed
from compute_agent.drivers.guest_record import GuestRecord
from compute_agent.drivers.libvirt.disks import arrival, opened, resize, seed
from compute_agent.drivers.libvirt.disks.image_cache import ImageCache
from compute_agent.drivers.libvirt.domains.domain_xml import Disk
from compute_agent.drivers.libvirt.domains.peer import Files
from fleet import failpoints
from fleet.agent import commands, time_limit, whole_file
from fleet.agent.image import QCOW2, RAW, Room
from fleet.objects import BootData, Flavor, ImageRecord, Instance

LOG = logging.getLogger(__name__)

CONSOLE = "console.log"
_RECORD, _BASE, _ROOT, _EPHEMERAL, _SWAP, _SEED = "guest.json", "base", "disk", "ephemeral", "swap", "seed.iso"
#: A file beside disks that are those of the guest's former host.
SHARED_MARK = "shared"
#: What a guest writes to.
_DISKS = (_ROOT, _EPHEMERAL, _SWAP)
#: What other hosts read of a guest that is off, and of each one.
_MOVED, _CONSTANT = (_ROOT, _EPHEMERAL), (_BASE, _SEED, SHARED_MARK)
_DESTROYED, _MAKING = "destroyed-", "making-"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
#: The hypervisor's user goes through the directories, and cannot list them.
_MODE = 0o711
#: libvirt gives the files to the hypervisor's user.
_PRIVATE = 0o600
#: A base, which the hypervisor's user only reads.
_READABLE = 0o644


class GuestDisks:
    def __init__(self, directory: pathlib.Path, cache: ImageCache) -> None:
        self.directory = directory
        self._cache = cache

    def start(self) -> None:
        """:raises OSError: the directory cannot be written"""
        self.directory.mkdir(mode=_MODE, parents=True, exist_ok=True)
        for doomed in (*self.directory.glob(f"{_DESTROYED}*"), *self.directory.glob(f"{_MAKING}*")):
            shutil.rmtree(doomed)
        for path in self.directory.iterdir():
            if not _is_guest(path):
                continue
            if self.record(path.name) is not None:
                # An earlier release, or a crash, has left it without them.
                opened.show(path, _CONSTANT)
                continue
            if any((path / name).exists() for name in _DISKS):
                # A crash leaves no such directory: the record is damaged, and the disks may be all that is left of the data.
                LOG.error(
                    "The record %s of a guest cannot be read. Its disks stay: delete the instance to remove them, or "
                    "bring the file back",
                    path / _RECORD,
                )
            else:
                LOG.info("Removing %s, which a crash has left without a record", path)
                shutil.rmtree(path)

    def of(self, uuid: str) -> pathlib.Path:
        return self.directory / uuid

    def opened(self, uuid: str) -> pathlib.Path:
        """Return the directory of what other hosts may read."""
        return self.of(uuid) / opened.OPENED

    def show(self, uuid: str) -> None:
        """Let other hosts read the disks of a guest that is off. May be repeated."""
        opened.show(self.of(uuid), _MOVED)

    def hide(self, uuid: str) -> None:
        """Take back :meth:`show`. May be repeated."""
        opened.hide(self.of(uuid), _MOVED)

    def records(self) -> dict[str, GuestRecord]:
        """Return the records of all guests, also of those that are being made or have lost their domain."""
        found = {path.name: guest_record.read(path / _RECORD) for path in self.directory.iterdir() if _is_guest(path)}
        return {uuid: record for uuid, record in found.items() if record is not None}

    def left(self) -> set[str]:
        """Return guests without a record of which there are files: it is damaged, or their removal has failed."""
        found = {path.name: path for path in self.directory.iterdir()}
        damaged = {name for name, path in found.items() if _is_guest(path) and self.record(name) is None}
        return damaged | {name.removeprefix(_DESTROYED) for name in found if name.startswith(_DESTROYED)}

    def promised(self) -> int:
        """Return the bytes by which the disks of all guests may still grow. What they have written is not free any more."""
        return sum(max(0, record.disk_gb * units.Gi - self._written(uuid)) for uuid, record in self.records().items())

    def _written(self, uuid: str) -> int:
        """Return the bytes that the disks of a guest take; its claim has no swap."""
        found = 0
        for name in (_ROOT, _EPHEMERAL):
            # A guest may be removed meanwhile.
            with contextlib.suppress(FileNotFoundError):
                found += whole_file.stored_size((self.of(uuid) / name).stat())
        return found

    def record(self, uuid: str) -> GuestRecord | None:
        return guest_record.read(self.of(uuid) / _RECORD)

    def keep(self, record: GuestRecord) -> None:
        time_limit.require_wanted()
        guest_record.write(self.of(record.uuid) / _RECORD, record)

    def begin(self, record: GuestRecord) -> None:
        """:raises SpawnFailed: the guest has a directory already, or cannot have one"""
        making = self.directory / f"{_MAKING}{uuidutils.generate_uuid()}"
        try:
            making.mkdir(mode=_MODE)
            guest_record.write(making / _RECORD, record)
            time_limit.require_wanted()
            # A directory with a record is not replaced.
            making.rename(self.of(record.uuid))
        except OSError as failure:
            if self.of(record.uuid).exists():
                raise SpawnFailed(f"Instance {record.uuid} exists on this machine already") from None
            raise SpawnFailed(f"The guest cannot be made: {failure}") from None
        finally:
            shutil.rmtree(making, ignore_errors=True)
        failpoints.hit("libvirt.directory.after")

    def fetch(self, instance: Instance, image: ImageRecord) -> None:
        """Do the part of :meth:`fill` that may find the image unacceptable, before there is a guest.

        :raises errors.ImageUnacceptable:
        :raises OSError:
        """
        self._cache.prepare(image, self._root_room(instance.flavor))

    def fill(self, instance: Instance, image: ImageRecord, data: BootData) -> None:
        """Make the other files of a guest. The caller removes them if that fails.

        :raises errors.ImageUnacceptable:
        :raises OSError:
        """
        directory, flavor = self.of(instance.uuid), instance.flavor
        time_limit.require_wanted()
        self._cache.link(image, directory / _BASE, self._root_room(flavor))
        failpoints.hit("libvirt.image.after")
        options = ("-b", _BASE, "-F", image.disk_format, str(directory / _ROOT))
        sizes = [str(flavor.root_gb * units.Gi)] if flavor.root_gb else []
        _qemu_img("create", *options, *sizes)
        for name, size in _blank(flavor).items():
            _qemu_img("create", str(directory / name), str(size))
        time_limit.require_wanted()
        seed.write(directory / _SEED, instance, data)
        (directory / CONSOLE).touch()
        for name in (_ROOT, *_blank(flavor), _SEED, CONSOLE):
            (directory / name).chmod(_PRIVATE)
        opened.show(directory, _CONSTANT)
        failpoints.hit("libvirt.disks.after")

    def adopt(self, instance: Instance, other: pathlib.Path) -> None:
        """Give a guest the disks that it has in the directory of another host, by links: what is removed here, or there, is
        then still in the other place.

        :param other: the directory of the guests of that host
        :raises OSError: also if the guest is not there
        """
        there, here = other / instance.uuid, self.of(instance.uuid)
        for name in (_BASE, _ROOT):
            os.link(there / name, here / name)
        for name in (_EPHEMERAL, _SWAP, _SEED):
            if (there / name).exists():
                os.link(there / name, here / name)
        (here / CONSOLE).touch(_PRIVATE)
        opened.show(here, _CONSTANT)

    def mark_shared(self, uuid: str) -> None:
        """The disks are those that the guest has on another host: nothing is to be copied to them."""
        (self.opened(uuid) / SHARED_MARK).touch()

    def unmark_shared(self, uuid: str) -> None:
        for directory in (self.opened(uuid), self.of(uuid)):
            (directory / SHARED_MARK).unlink(missing_ok=True)

    def receive(
        self, instance: Instance, image: ImageRecord | None, files: Files, progress: Callable[[int], object]
    ) -> None:
        """Copy the files of a guest to its directory, and give it the disks of its flavor. The caller removes them if that
        fails.

        :param image: that the guest has booted from; None if its record is gone
        :raises errors.ImageUnacceptable:
        :raises OSError:
        """
        self._receive(instance, image, files, [_ROOT, _EPHEMERAL, _SEED], progress)
        (self.of(instance.uuid) / CONSOLE).touch(_PRIVATE)
        self._enlarge(instance)

    def _receive(
        self,
        instance: Instance,
        image: ImageRecord | None,
        files: Files,
        names: list[str],
        progress: Callable[[int], object],
    ) -> None:
        """Copy the files of these names, and the base."""
        directory = self.of(instance.uuid)
        if image is not None and image.checksum:
            self._cache.link(image, directory / _BASE, self._root_room(instance.flavor))
        else:
            # Nothing says that the bytes at the image's location are still those that the overlay was made for.
            names = [*names, _BASE]
        arrival.copy(files, directory, names, progress)
        failpoints.hit("libvirt.copy.after")
        if (directory / _BASE).stat().st_nlink == 1:
            (directory / _BASE).chmod(_READABLE)
        opened.show(directory, _CONSTANT)

    def prepare(
        self, instance: Instance, image: ImageRecord | None, files: Files, sizes: Mapping[str, int], base_format: str
    ) -> None:
        """Give a guest that arrives while it runs empty disks of these sizes, and the files that do not change. The caller
        removes them if that fails.

        :param image: that the guest has booted from; None if its record is gone
        :param base_format: that the guest's root disk names
        :raises errors.ImageUnacceptable:
        :raises OSError:
        """
        directory = self.of(instance.uuid)
        self._receive(instance, image, files, [_SEED], lambda percent: None)
        for name, size in sizes.items():
            backing = ("-b", _BASE, "-F", base_format) if name == _ROOT else ()
            _qemu_img("create", *backing, str(directory / name), str(size))
        (directory / CONSOLE).touch()
        for name in (*sizes, CONSOLE):
            (directory / name).chmod(_PRIVATE)

    def disks(self, instance: Instance) -> list[Disk]:
        directory = self.of(instance.uuid)
        names = [_ROOT, *_blank(instance.flavor)]
        disks = [Disk(directory / name, QCOW2, f"vd{letter}") for letter, name in zip("abc", names, strict=False)]
        # The last of all names, so that disks that come later do not change the order.
        return [*disks, Disk(directory / _SEED, RAW, "vdz", readonly=True)]

    def require_no_smaller(self, instance: Instance, flavor: Flavor) -> None:
        """:raises SpawnFailed: the flavor has a smaller disk than the guest"""
        sizes = {_EPHEMERAL: flavor.ephemeral_gb * units.Gi}
        if flavor.root_gb or instance.flavor.root_gb:
            sizes[_ROOT] = flavor.root_gb * units.Gi
        resize.require_no_smaller(self.of(instance.uuid), sizes)

    def grow(self, instance: Instance) -> None:
        """Give a guest that is off the disks of its new flavor; the former ones are kept. May be repeated.

        :raises OSError:
        """
        resize.keep(self.of(instance.uuid), _DISKS)
        self._enlarge(instance)

    def _enlarge(self, instance: Instance) -> None:
        directory, flavor = self.of(instance.uuid), instance.flavor
        if flavor.root_gb:
            resize.grow(directory / _ROOT, flavor.root_gb * units.Gi)
        time_limit.require_wanted()
        # What was swapped out is of no use to a guest that boots.
        (directory / _SWAP).unlink(missing_ok=True)
        for name, size in _blank(flavor).items():
            if (directory / name).exists():
                resize.grow(directory / name, size)
            else:
                _qemu_img("create", str(directory / name), str(size))
                (directory / name).chmod(_PRIVATE)

    def is_grown(self, uuid: str) -> bool:
        return resize.is_kept(self.of(uuid))

    def shrink(self, uuid: str) -> None:
        """Give a guest that is off the disks that it had before :meth:`grow`. May be repeated."""
        resize.give_back(self.of(uuid), _DISKS)

    def clear(self, uuid: str) -> None:
        """Remove what a crash has left of :meth:`grow`: it may fill the file system."""
        time_limit.require_wanted()
        resize.clear(self.of(uuid))

    def forget_former(self, uuid: str) -> None:
        """The guest keeps the disks that it has."""
        resize.forget(self.of(uuid))

    def remove(self, uuid: str) -> bool:
        """Remove all files of a guest, also those that a removal has left. Return False if there are none. May be repeated.

        :raises OSError: files are left
        """
        doomed = self.directory / f"{_DESTROYED}{uuid}"
        was_left = doomed.exists()
        if was_left:
            shutil.rmtree(doomed)
        try:
            self.of(uuid).rename(doomed)
        except FileNotFoundError:
            return was_left
        shutil.rmtree(doomed)
        return True

    def _root_room(self, flavor: Flavor) -> Room:
        """Return how large a root disk may be. Without a size in the flavor it is as large as its image."""
        if flavor.root_gb:
            return Room(flavor.root_gb * units.Gi)
        return Room(shutil.disk_usage(self.directory).free, of_host=True)


def _blank(flavor: Flavor) -> dict[str, int]:
    """Return the disks besides the root disk, with their sizes in bytes."""
    sizes = {_EPHEMERAL: flavor.ephemeral_gb * units.Gi, _SWAP: flavor.swap * units.Mi}
    return {name: size for name, size in sizes.items() if size}


def _qemu_img(command: str, *arguments: str) -> None:
    time_limit.require_wanted()
    commands.run("qemu-img", command, "-q", "-f", QCOW2, *arguments)


def _is_guest(path: pathlib.Path) -> bool:
    return _UUID.fullmatch(path.name) is not None and os.path.isdir(path)
