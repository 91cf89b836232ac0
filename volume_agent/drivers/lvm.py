# SPDX-License-Identifier: Apache-2.0
"""Volumes and snapshots as logical volumes of LVM: thick ones in a volume group, or thin ones in a thin pool.

``volume_driver = lvm`` names it. A volume is made under a temporary name and renamed when it has its data. So after a
crash the volume is there, or it is not; temporary ones are removed at the next start. The space of a thick volume is
zeroed first: it may hold data of others.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import re
import tempfile
from collections.abc import Callable, Collection, Iterator
from typing import Any

from oslo_log import log as logging
from oslo_utils import units

from fleet import errors
from fleet.agent import commands, image
from fleet.objects import Volume, VolumeConnection, VolumeImage, location
from volume_agent.drivers import growth
from volume_agent.drivers.base import Existing, Stored, VolumeDriver
from volume_agent.drivers.blocks import Blocks
from volume_agent.drivers.volume_group import LogicalVolume, VolumeGroup

LOG = logging.getLogger(__name__)

#: LVM keeps names that begin with "snapshot" for itself.
_NAME = re.compile(r"(?:volume|snap)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
#: Begins the name of what is being made. Others may have volumes with names like it.
_PART = "part-"
_PART_NAME = re.compile(_PART + _NAME.pattern)
#: Begins the ``location_info`` of a pool; the name of its group follows.
_LOCATION = "lvm:"
_PROGRAMS = ("lvs", "blkdiscard", "dd")
#: Kinds of logical volumes that depend on no other: a plain and a thin one. A snapshot and its origin are others.
_PLAIN, _THIN_POOL = ("-", "V"), "t"


@dataclasses.dataclass(frozen=True)
class _Pool:
    """A pool: a volume group, or a thin pool of it."""

    group: VolumeGroup
    thin: str = ""

    def holds(self, volume: LogicalVolume) -> bool:
        return volume.pool == self.thin


class LvmDriver(VolumeDriver):
    def __init__(
        self, options: Any, group: Callable[[str], VolumeGroup] = VolumeGroup, blocks: Blocks | None = None
    ) -> None:
        if not options.lvm_pools:
            raise errors.ConfigError(
                option="lvm_pools", reason="names no pool: set it to NAME:GROUP or NAME:GROUP/POOL"
            )
        missing = [program for program in _PROGRAMS if commands.find(program) is None]
        if missing:
            raise errors.ConfigError(option="volume_driver", reason=f"is lvm, and {missing[0]} is not installed")
        self._pools = {name: _pool(name, place, group) for name, place in options.lvm_pools.items()}
        for (name, place), (other, same) in itertools.combinations(options.lvm_pools.items(), 2):
            if place.rstrip("/") == same.rstrip("/"):
                reason = f"has {place} twice, as pools {name} and {other}: their volumes would be taken for copies"
                raise errors.ConfigError(option="lvm_pools", reason=reason)
        self._blocks = blocks or Blocks()

    def places(self) -> Collection[str]:
        return [f"{pool.group.name}{'/' * bool(pool.thin)}{pool.thin}" for pool in self._pools.values()]

    def init_backend(self) -> None:
        for name, pool in self._pools.items():
            volumes = pool.group.volumes()
            if pool.thin:
                _require_thin_pool(name, pool, volumes)
            for each in volumes:
                if _PART_NAME.fullmatch(each.name) and pool.holds(each):
                    LOG.info("Removing %s/%s, which a crash has left half-made", pool.group.name, each.name)
                    pool.group.remove(each.name)
            if not pool.thin:
                self._undo_extensions(pool)

    @staticmethod
    def _undo_extensions(pool: _Pool) -> None:
        """Give volumes their old sizes whose extension has not ended. If it is still wanted, it is ordered again.

        A volume that a program has open keeps what it has: the program may use all of it.
        """
        for _uuid, volume in _named(pool):
            if growth.is_unfinished(volume) and not volume.is_open:
                LOG.info("Undoing the extension of %s/%s, which has not ended", pool.group.name, volume.name)
                try:
                    growth.undo_unfinished(pool.group, volume)
                except OSError as failure:
                    LOG.warning("%s/%s is not attached until it is extended: %s", pool.group.name, volume.name, failure)

    def stats(self) -> dict[str, object]:
        stored = self.volumes()
        pools = [self._stats_of(name, pool, stored) for name, pool in self._pools.items()]
        return {"vendor_name": "fleet", "driver_version": "1", "storage_protocol": "lvm", "pools": pools}

    @staticmethod
    def _stats_of(name: str, pool: _Pool, stored: Collection[Stored]) -> dict[str, object]:
        total, free = pool.group.capacity() if not pool.thin else _thin_capacity(pool)
        return {
            "pool_name": name,
            "total_capacity_gb": round(total / units.Gi, 2),
            "free_capacity_gb": round(free / units.Gi, 2),
            "provisioned_capacity_gb": sum(each.size_gb for each in stored if each.pool == name),
            "thin_provisioning_support": bool(pool.thin),
            "thick_provisioning_support": not pool.thin,
            "location_info": f"{_LOCATION}{pool.group.name}",
        }

    def volumes(self) -> Collection[Stored]:
        return [
            Stored(uuid, name, growth.zeroed_to(volume) // units.Gi)
            for name, pool in self._pools.items()
            for uuid, volume in _named(pool)
        ]

    def create(self, volume: Volume) -> None:
        pool = self._pool(volume.pool)
        if _find(pool, volume.uuid) is not None:
            return
        self._require_kind(volume, pool)
        part, size = f"{_PART}{_name(volume)}", volume.size_gb * units.Gi
        try:
            if volume.source_uuid is not None:
                self._copy(pool, part, size, _require(pool, volume.source_uuid))
            else:
                self._make(pool, part, size)
            if volume.image is not None:
                self._write_image(pool.group.device(part), volume.image, size)
            pool.group.rename(part, _name(volume))
        except BaseException:
            _discard(pool, part)
            raise

    def receive(self, volume: Volume, pool: str) -> None:
        """The source is a logical volume that is active on this machine."""
        there = self._pool(pool)
        found = _find(there, volume.uuid)
        if found is not None and volume.copy_from == f"{_LOCATION}{there.group.name}":
            raise FileExistsError(f"pool {pool} is the one that the volume is on already, under another name")
        _require_same_machine(volume)
        if found is not None and not volume.old_copy:
            return
        self._require_kind(volume, there)
        if volume.copy_from is None or not volume.copy_from.startswith(_LOCATION):
            raise FileNotFoundError(f"the data of {volume.location} are in no volume group")
        source = pathlib.Path("/dev", volume.copy_from.removeprefix(_LOCATION), _name(volume))
        if not source.is_block_device():
            raise FileNotFoundError(f"the data of {volume.location} are not on this machine: there is no {source}")
        if volume.copy_from == f"{_LOCATION}{there.group.name}":
            # A group has each name once. That of the volume is taken until its source is removed, after the copy.
            raise FileExistsError(
                f"pool {pool} is in the volume group where the volume is: it moves to other groups only"
            )
        if found is not None:
            there.group.remove(found.name)
        part = f"{_PART}{_name(volume)}"
        try:
            self._make(there, part, volume.size_gb * units.Gi)
            self._blocks.copy(source, there.group.device(part), volume.size_gb * units.Gi)
            there.group.rename(part, _name(volume))
        except BaseException:
            _discard(there, part)
            raise

    def _make(self, pool: _Pool, name: str, size: int) -> None:
        """A volume of zeros. A thin pool zeroes what it hands out."""
        if pool.thin:
            pool.group.create_thin(name, size, pool.thin)
        else:
            pool.group.create(name, size)
            self._blocks.zero(pool.group.device(name), 0, size)

    def _copy(self, pool: _Pool, name: str, size: int, source: LogicalVolume) -> None:
        """The source may have been extended since the copy was asked for: what it has more is left out."""
        if not pool.thin:
            self._make(pool, name, size)
            most = min(size, growth.zeroed_to(source))
            self._blocks.copy(pool.group.device(source.name), pool.group.device(name), most)
            return
        pool.group.snapshot(name, source.name)
        if size > source.size:
            pool.group.extend(name, size)
        pool.group.reduce(name, size)

    def _write_image(self, device: pathlib.Path, wanted: VolumeImage, size: int) -> None:
        if wanted.disk_format == image.RAW:
            image.write(wanted, device, image.Room(size))
        else:
            with tempfile.TemporaryDirectory(prefix="fleet-volume-") as directory:
                fetched = pathlib.Path(directory, "image")
                image.write(wanted, fetched, image.Room(size))
                formats = ("-f", wanted.disk_format, "-O", image.RAW)
                commands.run("qemu-img", "convert", "-q", "-n", *formats, str(fetched), str(device))
        self._blocks.flush(device)

    def extend(self, volume: Volume, size_gb: int) -> None:
        pool, size = self._pool(volume.pool), size_gb * units.Gi
        found = _require(pool, volume.uuid)
        if found.size < size and pool.thin:
            pool.group.extend(found.name, size)
        elif not pool.thin:
            growth.grow(pool.group, self._blocks, found, size)

    def retype(self, volume: Volume) -> None:
        self._require_kind(volume, self._pool(volume.pool))

    def delete(self, uuid: str, pool: str) -> None:
        found = _find(self._pool(pool), uuid)
        if found is not None:
            self._pool(pool).group.remove(found.name)

    def connection(self, uuid: str, pool: str) -> VolumeConnection:
        there = self._pool(pool)
        found = _require(there, uuid)
        if growth.is_unfinished(found):
            reason = "its extension has not ended, and what it has more may hold data of others: extend it again"
            raise OSError(f"{there.group.name}/{found.name} is given to no guest: {reason}")
        return VolumeConnection("block", str(there.group.device(found.name)))

    def manageable(self) -> Collection[Existing]:
        found: list[Existing] = []
        for name, pool in self._pools.items():
            for volume in pool.group.volumes():
                if not pool.holds(volume) or volume.kind == _THIN_POOL or _is_ours(volume.name):
                    continue
                found.append(Existing(volume.name, name, volume.size, _why_not(volume), _stored(pool, volume)))
        return found

    def measure(self, reference: str, pool: str) -> Existing:
        """:param reference: the name of a logical volume in the pool"""
        there = self._pool(pool)
        found = [each for each in there.group.volumes() if each.name == reference]
        if not found:
            reason = f"group {there.group.name} has no such logical volume"
        elif _is_ours(reference):
            reason = "it belongs to a volume or snapshot"
        elif not there.holds(found[0]):
            reason = f"it is not in pool {pool} ({there.group.name}{'/' * bool(there.thin)}{there.thin})"
        else:
            reason = _why_not(found[0])
        if reason:
            raise errors.InvalidReference(reference=reference, reason=reason)
        return Existing(reference, pool, found[0].size, stored_bytes=_stored(there, found[0]))

    def manage(self, volume: Volume) -> None:
        pool = self._pool(volume.pool)
        if _find(pool, volume.uuid) is not None:
            return
        assert volume.reference is not None, "the ledger has what is to be managed"
        assert volume.pool is not None, "the ledger has given the volume its pool"
        self._require_kind(volume, pool)
        found = self.measure(volume.reference, volume.pool)
        self._require_size(found, volume)
        size = volume.claimed_gb * units.Gi
        (there,) = [each for each in pool.group.volumes() if each.name == found.reference]
        if pool.thin and there.size < size:
            pool.group.extend(there.name, size)
        elif not pool.thin:
            growth.grow(pool.group, self._blocks, there, size)
        pool.group.rename(found.reference, _name(volume))

    def unmanage(self, uuid: str, pool: str) -> None:
        found = _find(self._pool(pool), uuid)
        if found is not None:
            self._pool(pool).group.rename(found.name, f"unmanaged-{uuid}")

    def _pool(self, name: str | None) -> _Pool:
        if name not in self._pools:
            raise FileNotFoundError(f"there is no pool {name}; lvm_pools names {', '.join(self._pools)}")
        return self._pools[name]

    @staticmethod
    def _require_kind(volume: Volume, pool: _Pool) -> None:
        """A thick volume needs a thick pool. Others may be thick."""
        if pool.thin and volume.volume_type is not None and not volume.volume_type.thin:
            raise OSError(f"the thin pool {pool.group.name}/{pool.thin} has no thick volumes")


def _pool(name: str, place: str, group: Callable[[str], VolumeGroup]) -> _Pool:
    """:raises errors.ConfigError:"""
    where, _, thin = place.partition("/")
    if not re.fullmatch(r"[A-Za-z0-9+_.][A-Za-z0-9+_.-]*", where) or not re.fullmatch(r"[A-Za-z0-9+_.-]*", thin):
        reason = f"{name} has {place!r}, which is neither a volume group nor GROUP/POOL"
        raise errors.ConfigError(option="lvm_pools", reason=reason)
    return _Pool(group(where), thin)


def _require_thin_pool(name: str, pool: _Pool, volumes: Collection[LogicalVolume]) -> None:
    """:raises OSError: the thin pool is not there, or a guest could read in new blocks what others have written"""
    where = f"pool {name}: group {pool.group.name}"
    found = [each for each in volumes if each.name == pool.thin and each.kind == _THIN_POOL]
    if not found:
        raise FileNotFoundError(f"{where} has no thin pool {pool.thin}")
    if not found[0].zeroes:
        advice = f"set it by 'lvchange --zero y {pool.group.name}/{pool.thin}'"
        raise OSError(f"{where} has the thin pool {pool.thin}, which does not zero new blocks: {advice}")


def _thin_capacity(pool: _Pool) -> tuple[float, float]:
    """Return bytes in total, and those that are not written."""
    (found,) = [each for each in pool.group.volumes() if each.name == pool.thin]
    return found.size, found.size * (1 - found.data_percent / 100)


def _stored(pool: _Pool, volume: LogicalVolume) -> int | None:
    """Return the bytes of a thin pool that a volume takes; None: all of its size. LVM reports it for active volumes only."""
    return int(volume.size * volume.data_percent / 100) if pool.thin else None


def _named(pool: _Pool) -> Iterator[tuple[str, LogicalVolume]]:
    """The volumes and snapshots of a pool, with their uuid."""
    for volume in pool.group.volumes():
        name = _NAME.fullmatch(volume.name)
        if name is not None and pool.holds(volume):
            yield name.group(1), volume


def _name(volume: Volume) -> str:
    return f"{'volume' if volume.snapshot_of is None else 'snap'}-{volume.uuid}"


def _is_ours(name: str) -> bool:
    return _NAME.fullmatch(name) is not None or _PART_NAME.fullmatch(name) is not None


def _why_not(volume: LogicalVolume) -> str:
    """Return the reason for which a logical volume cannot become a volume; "" if it can."""
    if volume.kind not in _PLAIN:
        return f"it is no plain or thin logical volume (its attributes are {volume.attributes})"
    return "a program has it open" if volume.is_open else ""


def _find(pool: _Pool, uuid: str) -> LogicalVolume | None:
    return next((volume for each, volume in _named(pool) if each == uuid), None)


def _require(pool: _Pool, uuid: str) -> LogicalVolume:
    """:raises FileNotFoundError: neither a volume nor a snapshot with this uuid is there"""
    found = _find(pool, uuid)
    if found is None:
        raise FileNotFoundError(f"group {pool.group.name} has no volume or snapshot {uuid}")
    return found


def _require_same_machine(volume: Volume) -> None:
    """Another machine may have a group of the same name. What is in it under the name of the volume is not the volume.

    :raises FileNotFoundError:
    """
    if volume.held_host is None or volume.host is None:
        return
    if location.extract_host(volume.host, "host") != location.extract_host(volume.held_host, "host"):
        raise FileNotFoundError(f"the data of {volume.location} are not on this machine, the one of {volume.held_host}")


def _discard(pool: _Pool, part: str) -> None:
    """Remove a partial volume, if it is there."""
    if any(each.name == part for each in pool.group.volumes()):
        pool.group.remove(part)
