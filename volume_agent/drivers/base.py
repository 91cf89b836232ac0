# SPDX-License-Identifier: Apache-2.0
"""The interface of a volume driver. The agent's work calls it; the drivers beside it implement it."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Collection

from oslo_utils import units

from fleet import errors
from fleet.objects import Volume, VolumeConnection


@dataclasses.dataclass(frozen=True)
class Stored:
    """A volume or snapshot as it lies on a pool."""

    uuid: str
    pool: str
    size_gb: int


@dataclasses.dataclass(frozen=True)
class Existing:
    """Data on a pool that are no volume.

    :param reason: why it cannot become one; "" if it can
    :param stored_bytes: so much of the pool it takes. None: all of it
    """

    reference: str
    pool: str
    size_bytes: int = 0
    reason: str = ""
    stored_bytes: int | None = None

    @property
    def size_gb(self) -> int:
        """The size of the volume that it becomes: it grows to whole GiB."""
        return -(-self.size_bytes // units.Gi)

    @property
    def stored_gb(self) -> int:
        return (self.size_bytes if self.stored_bytes is None else self.stored_bytes) // units.Gi


class ExtensionUnfinished(OSError):
    """An extension has failed, and the volume has neither its old size nor its new one for sure. Repeat it."""


class VolumeDriver(abc.ABC):
    """One object for each backend. The methods are called from several threads, but for one volume from one at a time.

    :meth:`init_backend`, :meth:`stats` and :meth:`volumes` have two minutes. A backend whose driver takes longer counts as
    down until it has answered.

    Each method may be repeated: after a crash, or because its success was not recorded. Whatever it raises fails the
    attempt; the message is part of the volume's failure, and must name no secret.
    """

    #: Whether volumes are not really stored.
    simulated = False

    @abc.abstractmethod
    def __init__(self, options: object) -> None:
        """:param options: of the backend's section. :raises errors.ConfigError: an option is wrong"""

    def places(self) -> Collection[str]:
        """Return names of the storage that no other backend of this process may have. The default has none."""
        return ()

    @abc.abstractmethod
    def init_backend(self) -> None:
        """Prepare the backend, and remove partial volumes that a crash has left. Called before any other method.

        :raises OSError: the backend cannot be used now; it is tried again
        """

    @abc.abstractmethod
    def stats(self) -> dict[str, object]:
        """Return cinder's statistics with the key ``pools``: for each ``pool_name`` at least ``total_capacity_gb``,
        ``free_capacity_gb`` and ``provisioned_capacity_gb``. ``location_info``, a text, says where its data are, for the
        driver of the pool that a volume migrates to.

        :raises OSError: the backend cannot be used now: it counts as down
        """

    @abc.abstractmethod
    def volumes(self) -> Collection[Stored]:
        """Return the volumes and snapshots on the backend. A volume that migrates may be on two of its pools."""

    @abc.abstractmethod
    def create(self, volume: Volume) -> None:
        """Make a volume of ``volume.size_gb`` GiB on ``volume.pool``. If it exists already, do nothing.

        Its data are those of ``volume.source_uuid``, a volume or snapshot on the same pool, or of ``volume.image``, or
        zeros. It is a snapshot if it has ``volume.snapshot_of``, which is the source then; its data do not change any more.
        ``fleet.agent.image`` reads images.

        Make all of it or nothing, also if the machine crashes.
        """

    def receive(self, volume: Volume, pool: str) -> None:
        """Make the volume on ``pool``, with its data. If it exists there already, do nothing; but if ``volume.old_copy``
        is set, make it again in place of what is there.

        The data are on another pool, of this backend or another; ``volume.copy_from`` is the ``location_info`` that the
        driver there has reported. They do not change meanwhile. Make all of it or nothing, also if the machine crashes.

        :raises FileExistsError: it is the same pool under another name; after any other error what is on ``pool`` is removed
        """
        raise NotImplementedError(f"{type(self).__name__} takes no volumes of other pools")

    def copied_percent(self, volume: Volume, pool: str) -> int | None:
        """Return how much of a volume :meth:`receive` has copied until now. None: it cannot tell. :raises OSError:"""
        return None

    def retype(self, volume: Volume) -> None:  # noqa: B027  (a hook that does nothing)
        """Adapt a volume that stays where it is to ``volume.volume_type``, its new type. If it cannot be, raise an error.

        The default has nothing to adapt: the scheduler has matched the type with the pool.
        """

    @abc.abstractmethod
    def extend(self, volume: Volume, size_gb: int) -> None:
        """Grow a volume to ``size_gb`` GiB. If it has this size already, do nothing. After an error it has its old size.

        :raises ExtensionUnfinished: it may have another size; the extension is not reported as failed, and is repeated
        """

    @abc.abstractmethod
    def delete(self, uuid: str, pool: str) -> None:
        """Remove a volume or snapshot from ``pool``. If it does not exist, do nothing."""

    def connection(self, uuid: str, pool: str) -> VolumeConnection:
        """Return where the data of a volume are, for the guest that gets it. They must not move before the guest has
        given it back. The name of a file or a device has the uuid of the volume: hosts open no other.

        :raises FileNotFoundError: the volume is not on this pool
        :raises OSError: the backend cannot be used now
        """
        raise errors.NotSupported(what="Attaching a volume", driver=type(self).__name__)

    def manageable(self) -> Collection[Existing]:
        """Return the data on the pools that are no volume or snapshot. :raises errors.NotSupported:"""
        raise errors.NotSupported(what="Managing what lies on a pool", driver=type(self).__name__)

    def measure(self, reference: str, pool: str) -> Existing:
        """Return the facts of the volume that :meth:`manage` would make. Change nothing.

        :param reference: of the user: refuse everything but what is sure to belong to no volume and to depend on nothing
        :raises errors.InvalidReference: it does not exist, or cannot become a volume
        """
        raise errors.NotSupported(what="Managing what lies on a pool", driver=type(self).__name__)

    def manage(self, volume: Volume) -> None:
        """Make ``volume.reference`` on ``volume.pool`` the volume, and let it grow to ``volume.claimed_gb`` GiB. If the
        volume exists already, do nothing.

        :raises errors.InvalidReference: as :meth:`measure`, or it has become larger than what is claimed
        """
        raise errors.NotSupported(what="Managing what lies on a pool", driver=type(self).__name__)

    def unmanage(self, uuid: str, pool: str) -> None:
        """Give a volume a name that is no volume's, ``unmanaged-UUID``. Its data stay. If it does not exist, do nothing."""
        raise errors.NotSupported(what="Keeping the data of a volume that goes", driver=type(self).__name__)

    def _require_size(self, found: Existing, volume: Volume) -> None:
        """:raises errors.InvalidReference: it has grown since its space was claimed"""
        if found.size_gb > volume.claimed_gb:
            reason = f"it has {found.size_gb} GiB now, and had {volume.claimed_gb} when they were claimed"
            raise errors.InvalidReference(reference=found.reference, reason=reason)
