# SPDX-License-Identifier: Apache-2.0
"""Volumes and snapshots as files, sparse raw ones or qcow2 images, below one directory for each pool.

``volume_driver = directory`` names it. A volume is written under a temporary name, flushed, renamed, and its
directory flushed. So after a crash the volume is there, or it is not; temporary files are removed at the next start.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import shutil
from collections.abc import Collection
from typing import Any

from oslo_log import log as logging
from oslo_utils import units

from fleet import errors
from fleet.agent import commands, image, whole_file
from fleet.agent.image import QCOW2, RAW
from fleet.objects import Volume, VolumeConnection, VolumeImage
from volume_agent.drivers import volume_files
from volume_agent.drivers.base import Existing, Stored, VolumeDriver
from volume_agent.drivers.pool_directory import PoolDirectory

LOG = logging.getLogger(__name__)

_QEMU_IMG = "qemu-img"
#: Begins the ``location_info`` of a pool; its path follows.
_LOCATION = "directory:"
_UNMANAGED = "unmanaged"
#: Of the directory of a pool. A hypervisor's user goes through it to the volumes of its guests, and cannot list it.
_MODE = 0o711


class DirectoryDriver(VolumeDriver):
    def __init__(self, options: Any) -> None:
        if not options.directory_pools:
            raise errors.ConfigError(option="directory_pools", reason="names no pool: set it to NAME:PATH, ...")
        self._pools = {name: pathlib.Path(path) for name, path in options.directory_pools.items()}
        for name, path in self._pools.items():
            if not path.is_absolute():
                raise errors.ConfigError(
                    option="directory_pools", reason=f"has the path {path} for pool {name}, which is not absolute"
                )
        self._held: dict[str, PoolDirectory] = {}
        self._format = options.volume_format
        if self._format == QCOW2 and shutil.which(_QEMU_IMG) is None:
            raise errors.ConfigError(option="volume_format", reason=f"is {QCOW2}, and {_QEMU_IMG} is not installed")

    def init_backend(self) -> None:
        for path in self._pools.values():
            path.mkdir(mode=_MODE, parents=True, exist_ok=True)
        for (name, path), (other, same) in itertools.combinations(self._pools.items(), 2):
            if path.samefile(same):
                raise OSError(f"pools {name} and {other} are one directory: their volumes would be taken for copies")
        for held in self._held.values():
            held.release()
        self._held = {}
        for name, path in self._pools.items():
            self._held[name] = PoolDirectory(name, path)
        for path in self._pools.values():
            for part in path.glob(f"{whole_file.PART}*"):
                if volume_files.PART_NAME.fullmatch(part.name):
                    LOG.info("Removing %s, which a crash has left half-made", part)
                    part.unlink(missing_ok=True)

    def stats(self) -> dict[str, object]:
        stored = self.volumes()
        pools = [self._stats_of(name, self._directory(name), stored) for name in self._pools]
        return {"vendor_name": "fleet", "driver_version": "1", "storage_protocol": "file", "pools": pools}

    def _stats_of(self, name: str, path: pathlib.Path, stored: Collection[Stored]) -> dict[str, object]:
        found = os.statvfs(path)
        if found.f_flag & os.ST_RDONLY or not os.access(path, os.W_OK):
            raise PermissionError(f"pool {name}: {path} cannot be written")
        provisioned = sum(each.size_gb for each in stored if each.pool == name)
        return {
            "pool_name": name,
            "total_capacity_gb": round(found.f_blocks * found.f_frsize / units.Gi, 2),
            "free_capacity_gb": round(found.f_bavail * found.f_frsize / units.Gi, 2),
            "provisioned_capacity_gb": provisioned,
            "thin_provisioning_support": True,
            "thick_provisioning_support": True,
            "location_info": f"{_LOCATION}{self._place(name)}",
        }

    def _place(self, pool: str) -> pathlib.Path:
        """Return the path by which agents find the pool: the mere path of one that is full and has no mark."""
        try:
            return self._held[pool].place()
        except OSError as failure:
            LOG.warning("Pool %s cannot be told from others with its path: %s", pool, failure)
            return self._directory(pool)

    def volumes(self) -> Collection[Stored]:
        found: list[Stored] = []
        for pool in self._pools:
            for entry in os.scandir(self._directory(pool)):
                name = volume_files.NAME.fullmatch(entry.name)
                if name is not None:
                    with contextlib.suppress(FileNotFoundError):
                        size = volume_files.listed_size(entry.path, bool(name.group(2)))
                        found.append(Stored(name.group(1), pool, size // units.Gi))
        return found

    def create(self, volume: Volume) -> None:
        directory = self._directory(volume.pool)
        if volume_files.find(directory, volume.uuid) is not None:
            return
        if volume.source_uuid is not None:
            self._copy(volume, volume_files.require(directory, volume.source_uuid), directory)
            return
        with whole_file.written(volume_files.path_of(directory, volume, self._format == QCOW2)) as part:
            if volume.image is None:
                self._write(part, volume.size_gb * units.Gi, _is_thick(volume))
            else:
                self._write_image(part, volume, volume.image)

    def _write_image(self, part: pathlib.Path, volume: Volume, wanted: VolumeImage) -> None:
        """Write the data of an image in the format of the backend, and grow them to the size of the volume."""
        size = volume.size_gb * units.Gi
        is_image, is_thick = self._format == QCOW2, _is_thick(volume)
        if (wanted.disk_format, self._format) == (RAW, RAW):
            image.write(wanted, part, image.Room(size))
        else:
            self._convert(wanted, part, size)
        self._grow(part, is_image, size, is_thick)
        if is_thick and not is_image:
            volume_files.make_thick(part, size)

    def _convert(self, wanted: VolumeImage, part: pathlib.Path, size: int) -> None:
        if shutil.which(_QEMU_IMG) is None:
            raise OSError(f"an image of the format {wanted.disk_format} needs {_QEMU_IMG}, which is not installed")
        fetched = part.with_name(f"{part.name}.image")
        try:
            image.write(wanted, fetched, image.Room(size))
            # The format is named: the first bytes of an image are not asked what it is.
            commands.run(
                _QEMU_IMG, "convert", "-q", "-f", wanted.disk_format, "-O", self._format, str(fetched), str(part)
            )
        finally:
            fetched.unlink(missing_ok=True)

    def receive(self, volume: Volume, pool: str) -> None:
        """The source is a file that this machine can read: on a pool of the machine, or on a shared file system.

        Another machine may have a pool with the same path. What lies there under the name of the volume is not the volume.
        """
        directory = self._directory(pool)
        there = volume_files.find(directory, volume.uuid)
        if there is not None and _is_source(there, volume):
            raise FileExistsError(f"pool {pool} is the one that the volume is on already, under another name")
        if there is None or volume.old_copy:
            source = _source_of(volume)
            self._require_not_own(source, volume)
            self._copy(volume, source, directory)
            if there is not None and there.suffix != source.suffix:
                # The copy has not replaced it, and one of both would be taken for the volume.
                there.unlink()
                whole_file.flush(directory)

    def _require_not_own(self, source: pathlib.Path, volume: Volume) -> None:
        """Refuse a pool of this backend as the place of a volume that is on another backend: its path means another machine.

        The agents of earlier releases report no more than the path of a pool.

        :raises FileNotFoundError:
        """
        if volume.held_host in (None, volume.host):
            return
        for name, path in self._pools.items():
            if source.parent.samefile(path):
                raise FileNotFoundError(f"the data of {volume.location} are not on this machine: {path} is pool {name}")

    def copied_percent(self, volume: Volume, pool: str) -> int | None:
        """Return the percentage from the size of the partial file, which grows as it is written; holes count as written."""
        source = _source_of(volume)
        part = whole_file.part_of(volume_files.path_of(self._directory(pool), volume, volume_files.is_qcow2(source)))
        done, size = part.stat().st_size, source.stat().st_size
        return min(100 * done // size, 100)

    def _copy(self, volume: Volume, source: pathlib.Path, directory: pathlib.Path) -> None:
        """Copy the source, in its format. The file system shares the blocks of both if it can.

        The source may have been extended since the copy was asked for: what it has more is cut off.
        """
        thick = _is_thick(volume)
        shared = ("--reflink=never", "--sparse=never") if thick else ("--reflink=auto", "--sparse=always")
        with whole_file.written(volume_files.path_of(directory, volume, volume_files.is_qcow2(source))) as part:
            commands.run("cp", *shared, "--", str(source), str(part))
            self._cut(part, volume_files.is_qcow2(source), volume.size_gb * units.Gi)
            self._grow(part, volume_files.is_qcow2(source), volume.size_gb * units.Gi, thick)

    @staticmethod
    def _cut(path: pathlib.Path, is_image: bool, size: int) -> None:
        if volume_files.virtual_size(path, is_image) <= size:
            return
        if is_image:
            commands.run(_QEMU_IMG, "resize", "-q", "--shrink", "-f", QCOW2, str(path), str(size))
        else:
            os.truncate(path, size)

    def _write(self, path: pathlib.Path, size: int, thick: bool) -> None:
        if self._format == QCOW2:
            preallocation = "falloc" if thick else "off"
            options = ["-f", QCOW2, "-o", f"preallocation={preallocation}", str(path), str(size)]
            commands.run(_QEMU_IMG, "create", "-q", *options)
            return
        with open(path, "wb") as file:
            if thick:
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)

    def extend(self, volume: Volume, size_gb: int) -> None:
        path = volume_files.require(self._directory(volume.pool), volume.uuid)
        self._grow(path, volume_files.is_qcow2(path), size_gb * units.Gi, _is_thick(volume))
        whole_file.flush(path)

    def retype(self, volume: Volume) -> None:
        """A volume that becomes thick gets all its space; one that becomes thin keeps what it has."""
        path = volume_files.require(self._directory(volume.pool), volume.uuid)
        if not _is_thick(volume):
            return
        if volume_files.is_qcow2(path):
            raise OSError("a qcow2 image cannot be made thick where it is")
        volume_files.make_thick(path, volume.size_gb * units.Gi)
        whole_file.flush(path)

    @staticmethod
    def _grow(path: pathlib.Path, is_image: bool, size: int, thick: bool) -> None:
        """Grow a volume to ``size`` bytes, unless it has them."""
        before = volume_files.virtual_size(path, is_image)
        if before >= size:
            return
        if is_image:
            commands.run(
                _QEMU_IMG, "resize", "-q", f"--preallocation={'falloc' if thick else 'off'}", str(path), str(size)
            )
        else:
            volume_files.grow_raw(path, before, size, thick)

    def delete(self, uuid: str, pool: str) -> None:
        directory = self._directory(pool)
        for path in volume_files.candidates(directory, uuid):
            path.unlink(missing_ok=True)
        whole_file.flush(directory)

    def connection(self, uuid: str, pool: str) -> VolumeConnection:
        path = volume_files.require(self._directory(pool), uuid)
        return VolumeConnection("file", str(path), QCOW2 if volume_files.is_qcow2(path) else RAW)

    def manageable(self) -> Collection[Existing]:
        found: list[Existing] = []
        for pool in self._pools:
            entries = os.scandir(self._directory(pool))
            names = (entry.name for entry in entries if not entry.is_dir(follow_symlinks=False))
            for name in sorted(names):
                if volume_files.NAME.fullmatch(name) or name.startswith(whole_file.PART):
                    continue
                shown = volume_files.shown(name)
                if shown != name:
                    reason = "its name is not UTF-8 or has control characters, and is shown escaped: rename it"
                    found.append(Existing(shown, pool, reason=reason))
                    continue
                try:
                    found.append(self.measure(name, pool))
                except errors.InvalidReference as refused:
                    found.append(Existing(name, pool, reason=refused.reason))
        return found

    def measure(self, reference: str, pool: str) -> Existing:
        """:param reference: the name of a file below the path of the pool, or its whole path"""
        path = self._path_of(reference, pool)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            raise errors.InvalidReference(reference=reference, reason=f"{path} does not exist") from None
        except OSError as failure:
            reason = "it is a symbolic link" if path.is_symlink() else f"it cannot be read: {failure.strerror}"
            raise errors.InvalidReference(reference=reference, reason=reason) from None
        try:
            size, stored = volume_files.usable_size(descriptor, path), whole_file.stored_size(os.fstat(descriptor))
            return Existing(reference, pool, size, stored_bytes=min(size, stored))
        except ValueError as reason:
            raise errors.InvalidReference(reference=reference, reason=str(reason)) from None
        finally:
            os.close(descriptor)

    def _path_of(self, reference: str, pool: str) -> pathlib.Path:
        """:raises errors.InvalidReference: this may be no file of a user"""
        directory = self._directory(pool)
        name = reference.removeprefix(f"{directory}/")
        belongs = volume_files.NAME.fullmatch(name)
        if "/" in name or name in ("", ".", ".."):
            reason = f"it must be the name of a file in {directory}, the path of pool {pool}"
        elif belongs:
            reason = f"it belongs to volume or snapshot {belongs.group(1)}"
        elif name.startswith(whole_file.PART):
            reason = "it is being written by the agent"
        else:
            return directory / name
        raise errors.InvalidReference(reference=reference, reason=reason)

    def manage(self, volume: Volume) -> None:
        directory = self._directory(volume.pool)
        if volume_files.find(directory, volume.uuid) is not None:
            return
        assert volume.reference is not None, "the ledger has what is to be managed"
        assert volume.pool is not None, "the ledger has given the volume its pool"
        self._require_size(self.measure(volume.reference, volume.pool), volume)
        path = self._path_of(volume.reference, volume.pool)
        is_image, is_thick = volume_files.is_qcow2(path), _is_thick(volume)
        if is_thick and is_image:
            raise errors.InvalidReference(reference=volume.reference, reason="a qcow2 image cannot be made thick")
        size = volume.claimed_gb * units.Gi
        self._grow(path, is_image, size, is_thick)
        if is_thick:
            volume_files.make_thick(path, size)
        # Last: a file that does not become a volume stays readable for those that read it.
        path.chmod(0o600)
        whole_file.flush(path)
        path.rename(volume_files.path_of(directory, volume, is_image))
        whole_file.flush(directory)

    def unmanage(self, uuid: str, pool: str) -> None:
        directory = self._directory(pool)
        path = volume_files.find(directory, uuid)
        if path is not None:
            path.rename(directory / f"{_UNMANAGED}-{uuid}{path.suffix}")
            whole_file.flush(directory)

    def _directory(self, pool: str | None) -> pathlib.Path:
        """:raises OSError: there is no such pool, or its file system is not mounted any more"""
        if pool is None or pool not in self._pools:
            raise FileNotFoundError(f"there is no pool {pool}; directory_pools names {', '.join(self._pools)}")
        return self._held[pool].require()


def _is_thick(volume: Volume) -> bool:
    return volume.volume_type is not None and not volume.volume_type.thin


def _is_source(path: pathlib.Path, volume: Volume) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return path.samefile(_source_of(volume))
    return False


def _source_of(volume: Volume) -> pathlib.Path:
    """The file that a migration copies. :raises FileNotFoundError: it is not on this machine"""
    if volume.copy_from is None or not volume.copy_from.startswith(_LOCATION):
        raise FileNotFoundError(f"the data of {volume.location} are in no directory")
    directory = pathlib.Path(volume.copy_from.removeprefix(_LOCATION))
    if not directory.is_dir():
        raise FileNotFoundError(f"the data of {volume.location} are not on this machine: there is no {directory}")
    return volume_files.require(directory, volume.uuid)
