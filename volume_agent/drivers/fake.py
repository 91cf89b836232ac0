# SPDX-License-Identifier: Apache-2.0
"""Volumes that are records in memory, with a capacity from the configuration; for trials and tests.

``volume_driver`` names it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

from oslo_utils import units

from fleet import errors
from fleet.objects import Volume, VolumeConnection
from volume_agent.drivers.base import Existing, Stored, VolumeDriver

_LOCATION = "fake"
_WORDS = ("infinite", "unknown")


class FakeVolumeFailure(Exception):
    """The configuration makes every volume fail on this pool."""


class FakeDriver(VolumeDriver):
    simulated = True

    def __init__(self, options: Any) -> None:
        self._totals = {name: _capacity(name, total) for name, total in options.fake_pools.items()}
        self._thin = options.fake_thin
        self._failing = frozenset(options.fake_failures)
        self._delay_s = options.fake_delay
        #: GiB of what lies on a pool and is no volume, by its name and pool.
        self._existing = dict(_existing(named, size) for named, size in options.fake_existing.items())
        self._lock = threading.Lock()
        #: By uuid and pool.
        self._volumes: dict[tuple[str, str], Stored] = {}
        self._never = threading.Event()

    def init_backend(self) -> None:
        """Do nothing: there is nothing to prepare."""

    def stats(self) -> dict[str, object]:
        held = {name: self._held_gb(name) for name in self._totals}
        pools = [
            {
                "pool_name": name,
                "total_capacity_gb": total,
                "free_capacity_gb": total
                if isinstance(total, str)
                else max(0.0, total - held[name] - self._existing_gb(name)),
                "provisioned_capacity_gb": held[name],
                "thin_provisioning_support": self._thin,
                "thick_provisioning_support": True,
                "location_info": _LOCATION,
            }
            for name, total in self._totals.items()
        ]
        return {"vendor_name": "fleet", "driver_version": "1", "storage_protocol": "fake", "pools": pools}

    def _held_gb(self, pool: str) -> int:
        return sum(stored.size_gb for stored in self.volumes() if stored.pool == pool)

    def _existing_gb(self, pool: str) -> int:
        return sum(each.stored_gb for each in self.manageable() if each.pool == pool)

    def volumes(self) -> Collection[Stored]:
        with self._lock:
            return list(self._volumes.values())

    def create(self, volume: Volume) -> None:
        assert volume.pool is not None, "the ledger has given the volume its pool"
        self._make(volume, volume.pool, volume.source_uuid)

    def receive(self, volume: Volume, pool: str) -> None:
        if volume.copy_from != _LOCATION:
            raise FakeVolumeFailure(f"there are no data to copy at {volume.copy_from}")
        self._make(volume, pool)

    def _make(self, volume: Volume, pool: str, source: str | None = None) -> None:
        if self._delay_s:
            self._never.wait(self._delay_s)
        self._require_working(pool)
        if pool not in self._totals:
            raise FakeVolumeFailure(f"there is no pool {pool}")
        with self._lock:
            if source is not None and (source, pool) not in self._volumes:
                raise FakeVolumeFailure(f"there is no volume {source} to copy")
            self._volumes[volume.uuid, pool] = Stored(volume.uuid, pool, volume.size_gb)

    def _require_working(self, pool: str | None) -> None:
        if pool in self._failing:
            raise FakeVolumeFailure(f"pool {pool} is configured to fail")

    def extend(self, volume: Volume, size_gb: int) -> None:
        assert volume.pool is not None, "the ledger has given the volume its pool"
        self._require_working(volume.pool)
        with self._lock:
            self._volumes[volume.uuid, volume.pool] = Stored(volume.uuid, volume.pool, size_gb)

    def delete(self, uuid: str, pool: str) -> None:
        with self._lock:
            self._volumes.pop((uuid, pool), None)

    def connection(self, uuid: str, pool: str) -> VolumeConnection:
        if (uuid, pool) not in self._volumes:
            raise FileNotFoundError(f"pool {pool} has no volume {uuid}")
        return VolumeConnection("fake", f"{_LOCATION}/{uuid}")

    def manageable(self) -> Collection[Existing]:
        with self._lock:
            return [Existing(name, pool, size_gb * units.Gi) for (name, pool), size_gb in self._existing.items()]

    def measure(self, reference: str, pool: str) -> Existing:
        found = [each for each in self.manageable() if (each.reference, each.pool) == (reference, pool)]
        if not found:
            raise errors.InvalidReference(reference=reference, reason=f"pool {pool} has nothing of this name")
        return found[0]

    def manage(self, volume: Volume) -> None:
        assert volume.reference is not None, "the ledger has what is to be managed"
        assert volume.pool is not None, "the ledger has given the volume its pool"
        if (volume.uuid, volume.pool) in self._volumes:
            return
        self._require_working(volume.pool)
        self._require_size(self.measure(volume.reference, volume.pool), volume)
        with self._lock:
            del self._existing[volume.reference, volume.pool]
            self._volumes[volume.uuid, volume.pool] = Stored(volume.uuid, volume.pool, volume.claimed_gb)

    def unmanage(self, uuid: str, pool: str) -> None:
        with self._lock:
            stored = self._volumes.pop((uuid, pool), None)
            if stored is not None:
                self._existing[f"unmanaged-{uuid}", pool] = stored.size_gb


def _existing(named: str, size: str) -> tuple[tuple[str, str], int]:
    """Return name and pool, and GiB. :raises errors.ConfigError:"""
    pool, slash, name = named.partition("/")
    if not (pool and slash and name and size.isdecimal()):
        reason = f"has {named}:{size}, which is not POOL/NAME:GIB"
        raise errors.ConfigError(option="fake_existing", reason=reason)
    return (name, pool), int(size)


def _capacity(pool: str, total: str) -> float | str:
    """:raises errors.ConfigError:"""
    if total in _WORDS:
        return total
    try:
        return float(total)
    except ValueError:
        reason = f"{pool} has {total!r}, which is neither a number of GiB nor infinite nor unknown"
        raise errors.ConfigError(option="fake_pools", reason=reason) from None
